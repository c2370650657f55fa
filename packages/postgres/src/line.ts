import { systemClock } from '@locks/core/adapter'
import { onSilence } from '@locks/sql'
import type { Line as AnyLine } from '@locks/sql'
import { Socket } from 'node:net'
import { Client } from 'pg'
import type { ClientConfig } from 'pg'
import { faults } from './errors.ts'

/** A statement, and the name it is prepared under where that is possible; none where it is not worth it. */
export interface Statement {
  readonly name: string | undefined
  readonly text: string
}

/** Every value as the server writes it: the program may have changed how `pg` parses types. */
export type Row = readonly (string | null)[]

export interface LineOptions {
  /** Whether statements are prepared by name; not through PgBouncer. */
  readonly named?: boolean
  /** Whether statements go out without waiting for the answers to those before. */
  readonly pipeline?: boolean
  /** Keeps it from being opened, once aborted. */
  readonly closing?: AbortSignal
}

/** Whatever the program's pool is set to: no wait is cut short, and a server that says nothing is not waited for. */
export const ours = { connectionTimeoutMillis: 5_000, query_timeout: 0 } as const

/** The system would ask after a connection that died silently only when it has been idle for hours. */
const keepAlive = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 } as const

const asWritten = { getTypeParser: () => (text: string) => text }

/** Runs one statement on any client of `pg`. */
export async function send(
  client: Pick<Client, 'query'>,
  { name, text }: Statement,
  values: unknown[],
  named: boolean,
): Promise<readonly Row[]> {
  const query = { text, values, rowMode: 'array' as const, types: asWritten }
  const { rows } = await client.query<(string | null)[]>(
    named && name !== undefined ? { ...query, name } : query,
  )
  return rows
}

/** One connection of the adapter's own. */
export class Line implements AnyLine {
  readonly #client: Client
  readonly #named: boolean
  #onEnd: (() => void) | undefined
  #ended = false
  #asked = 0
  readonly idleLimitMs: number = Infinity
  busySince: number | undefined
  /** The backend that answers, once that is known. */
  pid: number | undefined
  /** For how long the server bears a transaction in which nothing happens, once that was said. */
  silenceMs: number | undefined
  /** The transaction that holds a lock on it, while one does. */
  transaction: string | undefined

  private constructor(client: Client, named: boolean) {
    this.#client = client
    this.#named = named
    const end = (): void => {
      if (this.#ended) return
      this.#ended = true
      this.#onEnd?.()
    }
    // An error of a connection is its end; statements under way are told by themselves.
    client.on('error', end)
    client.on('end', end)
  }

  static async open(
    config: ClientConfig,
    { named = true, pipeline = false, closing }: LineOptions = {},
  ): Promise<Line> {
    closing?.throwIfAborted()
    const client = new Client({ ...keepAlive, ...config, ...ours, pipeline })
    const line = new Line(client, named)
    const giveUp = (): void => line.destroy()
    closing?.addEventListener('abort', giveUp)
    try {
      await client.connect()
    } catch (error) {
      line.destroy()
      throw error
    } finally {
      closing?.removeEventListener('abort', giveUp)
    }
    return line
  }

  get ended(): boolean {
    return this.#ended
  }

  /** The backend that the server announced; a pooler in between announces something else. */
  get announcedPid(): number | undefined {
    return 'processID' in this.#client && typeof this.#client.processID === 'number'
      ? this.#client.processID
      : undefined
  }

  query(statement: Statement, values: unknown[] = []): Promise<readonly Row[]> {
    return send(this.#client, statement, values, this.#named)
  }

  /**
   * The one row of a statement that takes a nonce as its last value and returns it as its first column, which is left
   * out here. `pg` pairs replies with statements by their order: on a connection that answers another statement than
   * the one sent, nothing can be relied on.
   */
  async ask(statement: Statement, values: unknown[] = []): Promise<Row> {
    const nonce = String((this.#asked += 1))
    const [[answered, ...row] = []] = await this.query(statement, [...values, nonce])
    if (answered === nonce) return row
    this.destroy()
    throw faults.unavailable('the server answered another statement than the one sent')
  }

  /** What `sends` sends goes out in one piece: the server is woken once. */
  together<T>(sends: () => T): T {
    const { stream } = this.#client.connection
    if (!(stream instanceof Socket)) return sends()
    stream.cork()
    try {
      return sends()
    } finally {
      stream.uncork()
    }
  }

  /** For work beyond `Lines`, which watches over its own: a server that stays silent fails it. */
  async promptly<T>(work: () => Promise<T>): Promise<T> {
    const timer = onSilence(systemClock, () => this.destroy())
    try {
      return await work()
    } finally {
      timer.cancel()
    }
  }

  onEnd(done: (() => void) | undefined): void {
    this.#onEnd = done
  }

  onNotification(heard: (payload: string) => void): void {
    this.#client.on('notification', ({ payload }) => heard(payload ?? ''))
  }

  keepAlive(yes: boolean): void {
    const { stream } = this.#client.connection
    // A socket without a handle would wait for one, with a listener for each call.
    if (stream instanceof Socket && !stream.destroyed) void (yes ? stream.ref() : stream.unref())
  }

  async close(): Promise<void> {
    this.#onEnd = undefined
    if (this.#ended) return
    const gone = new Promise<void>((resolve) => this.#client.once('end', () => resolve()))
    const timer = setTimeout(() => this.destroy(), 1_000)
    timer.unref()
    this.#client.end().catch(() => this.destroy())
    await gone
    clearTimeout(timer)
  }

  destroy(): void {
    this.#onEnd = undefined
    this.#ended = true
    this.#client.connection.stream.destroy()
  }
}
