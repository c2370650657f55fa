import { Wake } from '@locks/core/adapter'
import type { AcquireRequest, Clock, PushedGrant } from '@locks/core/adapter'
import type { GrantMessage } from './grant-messages.ts'

/** Anyone may send hints, so they make a waiter look no more often than this. */
const HINT_EVERY_MS = 50

/** One attempt in the queue of a lock. */
export class Waiter {
  readonly request: AcquireRequest
  readonly #clock: Clock
  readonly #wake: Wake
  /** The last exchange with the server: when it was sent, by this clock, and when that was by the server's. */
  #exchange: { readonly sentAt: number; readonly serverTime: number } | undefined
  #message: GrantMessage | undefined
  /** The earliest time for the next look because of a hint. */
  #hintedAfter = 0

  constructor(request: AcquireRequest, clock: Clock) {
    this.request = request
    this.#clock = clock
    this.#wake = new Wake(clock)
  }

  exchanged(sentAt: number, serverTime: number): void {
    this.#exchange = { sentAt, serverTime }
  }

  granted(message: GrantMessage): void {
    this.#message = message
    this.wake()
  }

  /** Worth trying again. */
  wake(): void {
    this.#wake.wake()
  }

  /** Perhaps worth trying again in a while. */
  hint(ms: number): void {
    this.#wake.wakeBy(Math.max(this.#clock.now() + ms, this.#hintedAfter))
  }

  /** The server may be another one now, with another clock. */
  doubt(): void {
    this.#exchange = undefined
    this.#message = undefined
    this.wake()
  }

  /** Until it is granted, woken or aborted, or `maxMs` are over. */
  async wait(maxMs: number, signal: AbortSignal): Promise<PushedGrant | undefined> {
    const how = await this.#wake.sleep(maxMs, { signal })
    if (how === 'due') this.#hintedAfter = this.#clock.now() + HINT_EVERY_MS
    return this.#grant()
  }

  /**
   * A lower bound of when the grant was made: when the exchange was sent, plus the time that has passed on the server
   * since. A grant that is read after a long pause so shows as over, and is worth no more than a look.
   */
  #grant(): PushedGrant | undefined {
    const [message, exchange] = [this.#message, this.#exchange]
    this.#message = undefined
    if (message === undefined || exchange === undefined) return undefined
    const mapped = exchange.sentAt + (message.madeAt - exchange.serverTime) / 1_000
    const { name } = this.request
    const { attemptId, fence, ttlMs } = message
    const now = this.#clock.now()
    if (mapped + ttlMs <= now) return undefined
    return { name, attemptId, fence, ttlMs, grantedAt: Math.min(mapped, now) }
  }
}
