import type { AcquireRequest, Clock, PushedGrant, Timer } from '@locks/core'

/** A grant as the release that made it tells: `attempt fence µs claim lock`. */
export interface Told {
  readonly attemptId: string
  readonly fence: bigint
  /** By the server's clock, in µs. */
  readonly madeAt: number
  readonly ttlMs: number
  /** Key of the lock. */
  readonly lock: string
}

/** Worth a look after a while: `attempt ms` when somebody else's claim ends, `attempt` on Redisson's turn. */
export interface Hint {
  readonly attemptId: string
  readonly inMs: number | undefined
}

export function readMessage(text: string): Told | Hint {
  const grant = /^(\S+) (\d+) (\d+) (\d+) (.*)$/s.exec(text)
  if (grant === null) {
    const [attemptId = '', inMs] = text.split(' ')
    return { attemptId, inMs: inMs === undefined ? undefined : Number(inMs) }
  }
  const [, attemptId = '', fence = '', madeAt, ttlMs, lock = ''] = grant
  return { attemptId, fence: BigInt(fence), madeAt: Number(madeAt), ttlMs: Number(ttlMs), lock }
}

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

  /** Worth trying again in a while. */
  wakeIn(ms: number): void {
    this.#lookAt = this.#clock.now() + ms
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
    this.#lookAt = Infinity
    return this.#grant()
  }

  #arm(): void {
    const ms = Math.min(this.#endsAt, this.#lookAt) - this.#clock.now()
    this.#timer = this.#clock.timer(Math.max(0, ms), () => this.#wake?.())
  }

  /**
   * A lower bound of when the grant was made: not before the exchange was sent, plus the time that has
   * passed on the server since. Read after a long pause, it is so found to be over.
   */
  #grant(): PushedGrant | undefined {
    const [told, exchange] = [this.#told, this.#exchange]
    this.#told = undefined
    if (told === undefined || exchange === undefined) return undefined
    const mapped = exchange.sentAt + (told.madeAt - exchange.serverTime) / 1_000
    const { name } = this.request
    const { attemptId, fence, ttlMs } = told
    return { name, attemptId, fence, ttlMs, grantedAt: Math.min(mapped, this.#clock.now()) }
  }
}
