import { onSilence, orAfter, systemClock } from '@locks/core/adapter'
import type { Clock } from '@locks/core/adapter'
import type { Socket } from 'node:net'
import type { SqlErrors } from './errors.ts'

/** A short statement that takes longer has lost its server: its connection is closed. */
export const SILENCE_MS = 5_000
/** A server may accept a connection and then fall silent. */
const OPENING_MS = 10_000
const CLOSING_MS = 1_000

/** A connection that the adapter opened itself. What client libraries do differently is left to subclasses. */
export abstract class Connection {
  readonly #errors: SqlErrors
  #onEnd: (() => void) | undefined
  #ended = false
  #asked = 0
  /** When a statement that should be short was sent, on the host's clock. */
  busySince: number | undefined
  /** How long the server leaves it idle; `Infinity` where it does not say. */
  idleLimitMs: number = Infinity

  constructor(errors: SqlErrors) {
    this.#errors = errors
  }

  /** The socket, where the client library shows it. */
  protected abstract get socket(): Socket | undefined
  /** Ends the session in order. */
  protected abstract end(): Promise<unknown>
  /** Closes the socket. */
  protected abstract cut(): void

  /** Runs the steps that open it. Gives up when they take too long, or `closing` is aborted. */
  protected async opened(closing: AbortSignal | undefined, open: () => Promise<unknown>): Promise<this> {
    closing?.throwIfAborted()
    const giveUp = (): void => this.destroy()
    const timer = onSilence(systemClock, OPENING_MS, giveUp)
    closing?.addEventListener('abort', giveUp)
    try {
      await open()
    } catch (error) {
      this.destroy()
      throw error
    } finally {
      timer.cancel()
      closing?.removeEventListener('abort', giveUp)
    }
    return this
  }

  /** Call it when the client library reports the end of the connection. */
  protected over(): void {
    if (this.#ended) return
    this.#ended = true
    this.#onEnd?.()
  }

  /**
   * The first row of the reply to a statement that takes a nonce and returns it as its first column, which is left out
   * here. Client libraries pair replies with statements by their order, so a connection whose reply has another nonce
   * is out of step, and is closed. The next reply on this connection proves that there was no row.
   */
  protected async checked<Cell>(
    send: (nonce: string) => Promise<readonly (readonly Cell[])[]>,
  ): Promise<readonly Cell[] | undefined> {
    const nonce = String((this.#asked += 1))
    const rows = await send(nonce)
    if (rows.length === 0) return undefined
    const [answered, ...row] = rows[0] ?? []
    return answered === nonce ? row : this.mixedUp()
  }

  protected mixedUp(): never {
    this.destroy()
    throw this.#errors.wrongReply()
  }

  /** For work outside a `ConnectionPool`: fails when the server stays silent. */
  promptly<T>(work: () => Promise<T>): Promise<T> {
    return unlessSilent(work(), systemClock, this.#errors, () => this.destroy())
  }

  get ended(): boolean {
    return this.#ended
  }

  /** Calls `done` when the connection ends, except by `close` or `destroy`. */
  onEnd(done: (() => void) | undefined): void {
    this.#onEnd = done
  }

  /** Whether the open socket keeps the process alive. */
  keepAlive(yes: boolean): void {
    const { socket } = this
    // A socket without a handle would add a listener for each call.
    if (socket !== undefined && !socket.destroyed) void (yes ? socket.ref() : socket.unref())
  }

  /** Ends the session in order. Never takes long, never rejects. */
  async close(): Promise<void> {
    this.#onEnd = undefined
    if (this.#ended) return
    await orAfter(
      systemClock,
      CLOSING_MS,
      this.end().catch(() => undefined),
    )
    this.destroy()
  }

  /** Ends it at once and fails statements under way. */
  destroy(): void {
    this.#onEnd = undefined
    this.#ended = true
    this.cut()
  }
}

/** Runs `work` on a connection that is opened for it alone, and fails when `closing` is aborted. */
export async function onOneConnection<C extends Connection, Result>(
  open: () => Promise<C>,
  { toLockError }: SqlErrors,
  work: (connection: C) => Promise<Result>,
  closing?: AbortSignal,
): Promise<Result> {
  try {
    const connection = await open()
    const giveUp = (): void => connection.destroy()
    closing?.addEventListener('abort', giveUp)
    try {
      closing?.throwIfAborted()
      return await work(connection)
    } finally {
      closing?.removeEventListener('abort', giveUp)
      await connection.close()
    }
  } catch (error) {
    throw toLockError(error)
  }
}

/** `giveUp` must end the connection. The statement may not get an answer even then, so this rejects by itself. */
export function unlessSilent<T>(
  sent: Promise<T>,
  clock: Clock,
  { unavailable }: SqlErrors,
  giveUp: () => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = onSilence(clock, SILENCE_MS, () => {
      giveUp()
      reject(unavailable(`the server did not answer within ${SILENCE_MS / 1_000} s; the outcome is unknown`))
    })
    sent.finally(() => timer.cancel()).then(resolve, reject)
  })
}
