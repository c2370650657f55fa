import type { AcquireRequest, Clock, PushedGrant, Timer } from '@locks/core/adapter'

/** A grant as the release that made it tells: `attempt fence µs claim lock proof`. Anyone may have sent it. */
export interface Told {
  readonly attemptId: string
  readonly fence: bigint
  /** By the server's clock, in µs. */
  readonly madeAt: number
  readonly ttlMs: number
  /** Key of the lock. */
  readonly lock: string
  /** All of the message but its proof, which is empty where there is none. */
  readonly text: string
  readonly proof: string
}

/** Worth a look after a while: `attempt ms` when somebody else's claim ends, `attempt` on Redisson's turn. */
export interface Hint {
  readonly attemptId: string
  readonly inMs: number | undefined
}

const attempt = String.raw`([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}:\d{1,19})`
const grantForm = new RegExp(
  String.raw`^(${attempt} (\d{1,16}) (\d{16}) (\d{1,9}) (.+?))(?: ([\da-f]{40}))?$`,
  's',
)
const hintForm = new RegExp(String.raw`^${attempt}(?: (\d{1,9}))?$`)

/** Undefined for what has neither form. */
export function readMessage(message: string): Told | Hint | undefined {
  const hint = hintForm.exec(message)
  if (hint !== null) {
    const [, attemptId = '', inMs] = hint
    return { attemptId, inMs: inMs === undefined ? undefined : Number(inMs) }
  }
  const grant = grantForm.exec(message)
  if (grant === null) return undefined
  const [, text = '', attemptId = '', fence = '', madeAt, ttlMs, lock = '', proof = ''] = grant
  return { attemptId, fence: BigInt(fence), madeAt: Number(madeAt), ttlMs: Number(ttlMs), lock, text, proof }
}

/** Anyone may send hints: so often one makes a waiter look, and not more. */
const HINT_EVERY_MS = 50

/** One attempt in the queue of a lock. */
export class Waiter {
  readonly request: AcquireRequest
  readonly #clock: Clock
  /** The last exchange with the server: when it was sent, here, and when that was, there. */
  #exchange: { readonly sentAt: number; readonly serverTime: number } | undefined
  #told: Told | undefined
  #woken = false
  #wake: (() => void) | undefined
  /** When to look again, whatever the wait was to last. */
  #lookAt = Infinity
  #endsAt = Infinity
  /** A look because of a hint is not due before. */
  #hintedAfter = 0
  #timer: Timer | undefined

  constructor(request: AcquireRequest, clock: Clock) {
    this.request = request
    this.#clock = clock
  }

  exchanged(sentAt: number, serverTime: number): void {
    this.#exchange = { sentAt, serverTime }
  }

  told(told: Told): void {
    this.#told = told
    this.wake()
  }

  /** Worth trying again. */
  wake(): void {
    this.#woken = true
    this.#wake?.()
  }

  /** Perhaps worth trying again in a while. Never puts off what is due earlier. */
  hint(ms: number): void {
    const at = Math.max(this.#clock.now() + ms, this.#hintedAfter)
    if (at >= this.#lookAt) return
    this.#lookAt = at
    if (this.#wake === undefined) return
    this.#timer?.cancel()
    this.#arm()
  }

  /** The server may be another one now, with a clock of its own. */
  doubt(): void {
    this.#exchange = undefined
    this.#told = undefined
    this.wake()
  }

  /** Until told of a grant, woken, aborted, or `maxMs`. */
  async wait(maxMs: number, signal: AbortSignal): Promise<PushedGrant | undefined> {
    if (!this.#woken && !signal.aborted)
      await new Promise<void>((resolve) => {
        const done = (): void => {
          this.#timer?.cancel()
          signal.removeEventListener('abort', done)
          this.#wake = undefined
          resolve()
        }
        signal.addEventListener('abort', done)
        this.#wake = done
        this.#endsAt = this.#clock.now() + maxMs
        this.#arm()
      })
    this.#woken = false
    const now = this.#clock.now()
    if (now >= this.#lookAt) this.#hintedAfter = now + HINT_EVERY_MS
    this.#lookAt = Infinity
    return this.#grant()
  }

  #arm(): void {
    const ms = Math.min(this.#endsAt, this.#lookAt) - this.#clock.now()
    this.#timer = this.#clock.timer(Math.max(0, ms), () => this.#wake?.())
  }

  /**
   * A lower bound of when the grant was made: not before the exchange was sent, plus the time that has
   * passed on the server since. Read after a long pause, it is so found to be over: then it is worth a look only.
   */
  #grant(): PushedGrant | undefined {
    const [told, exchange] = [this.#told, this.#exchange]
    this.#told = undefined
    if (told === undefined || exchange === undefined) return undefined
    const mapped = exchange.sentAt + (told.madeAt - exchange.serverTime) / 1_000
    const { name } = this.request
    const { attemptId, fence, ttlMs } = told
    const now = this.#clock.now()
    if (mapped + ttlMs <= now) return undefined
    return { name, attemptId, fence, ttlMs, grantedAt: Math.min(mapped, now) }
  }
}
