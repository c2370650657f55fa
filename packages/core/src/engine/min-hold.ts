import { MAX_TIMER_MS } from '../adapter/clock.ts'
import { safeTtlMs } from '../adapter/safe-ttl.ts'

/**
 * How long a name must stay held after its release because of `minHoldMs`. The store made the grant at some moment
 * between the request and its answer. Counting starts at the answer, and elapsed time is reduced by the possible
 * difference between the clocks of client and store, so that the hold is never too short.
 */
export class MinHold {
  readonly #answeredAt: number
  #lengthMs = 0

  constructor(answeredAt: number) {
    this.#answeredAt = answeredAt
  }

  /** Another lease of the hold asks for `minHoldMs` from `now` on. The latest end counts. */
  add(minHoldMs: number, now: number): void {
    this.#lengthMs = Math.max(this.#lengthMs, now - this.#answeredAt + minHoldMs)
  }

  /** What remains, in whole milliseconds, rounded up. */
  remainingMs(now: number): number {
    const elapsedMs = Math.max(0, safeTtlMs(now - this.#answeredAt))
    return Math.min(MAX_TIMER_MS, Math.max(0, Math.ceil(this.#lengthMs - elapsedMs)))
  }
}
