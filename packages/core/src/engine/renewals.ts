import type { Clock } from '../adapter/time.ts'
import type { Adapter, Renewal, RenewOutcome } from '../adapter/spi.ts'

/** A hold that is due for renewal. */
interface Renewable {
  readonly live: boolean
  /** The renewal to send now. */
  renewal(sentAt: number): Renewal
  answered(outcome: RenewOutcome, sentAt: number, ttlMs: number, failure: unknown): void
}

/** Sends renewals that are due together in one call. */
export class Renewals {
  readonly #clock: Clock
  readonly #adapter: Pick<Adapter, 'renew'>
  #due: Renewable[] = []

  constructor(clock: Clock, adapter: Pick<Adapter, 'renew'>) {
    this.#clock = clock
    this.#adapter = adapter
  }

  add(hold: Renewable): void {
    // All alarms that are due fire before this microtask runs.
    if (this.#due.push(hold) === 1) queueMicrotask(() => void this.#flush())
  }

  async #flush(): Promise<void> {
    const holds = this.#due.filter((hold) => hold.live)
    this.#due = []
    if (holds.length === 0) return
    const sentAt = this.#clock.now()
    const renewals = holds.map((hold) => hold.renewal(sentAt))
    let outcomes: readonly RenewOutcome[] = []
    let failure: unknown
    try {
      outcomes = await this.#adapter.renew(renewals)
    } catch (error) {
      failure = error
    }
    for (const [i, { ttlMs }] of renewals.entries())
      holds[i]?.answered(outcomes[i] ?? 'unknown', sentAt, ttlMs, failure)
  }
}
