import type { Clock } from '@locks/core/adapter'

/** From this many on, fences of ended holds are removed. */
const MANY = 1_000

/**
 * Fences of holds made here: a repeated attempt must get its own again, and a late node may have another. Core does not
 * report a hold that it leaves to its lock-delay, so each fence is kept as long as the nodes keep the hold.
 */
export class Fences {
  readonly #clock: Clock
  readonly #held = new Map<string, { readonly fence: bigint; until: number }>()
  #sweepAt = MANY

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get(attemptId: string): bigint | undefined {
    return this.#held.get(attemptId)?.fence
  }

  set(attemptId: string, fence: bigint, until: number): void {
    this.#held.set(attemptId, { fence, until })
    if (this.#held.size >= this.#sweepAt) this.#sweep()
  }

  /** The hold was renewed. */
  keep(attemptId: string, until: number): void {
    const held = this.#held.get(attemptId)
    if (held !== undefined) held.until = until
  }

  delete(attemptId: string): void {
    this.#held.delete(attemptId)
  }

  /** Rare enough to cost nothing: at least half of them came since the last time. */
  #sweep(): void {
    const now = this.#clock.now()
    for (const [attemptId, { until }] of this.#held) if (until < now) this.#held.delete(attemptId)
    this.#sweepAt = Math.max(MANY, 2 * this.#held.size)
  }
}
