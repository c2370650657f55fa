import type { Context } from './context.ts'
import type { Hold } from './hold.ts'
import type { RenewOutcome } from '../adapter/spi.ts'

/** Sends the renewals that fall due together to the adapter together. */
export class Renewals {
  readonly #context: Context
  #due: Hold[] = []

  constructor(context: Context) {
    this.#context = context
  }

  add(hold: Hold): void {
    // The alarms of one ring all fire before this microtask runs.
    if (this.#due.push(hold) === 1) queueMicrotask(() => void this.#flush())
  }

  async #flush(): Promise<void> {
    const holds = this.#due.filter((hold) => hold.live)
    this.#due = []
    if (holds.length === 0) return
    const sentAt = this.#context.clock.now()
    const renewals = holds.map((hold) => hold.renewal(sentAt))
    let outcomes: readonly RenewOutcome[] = []
    let failure: unknown
    try {
      outcomes = await this.#context.adapter.renew(renewals)
    } catch (error) {
      failure = error
    }
    holds.forEach((hold, i) => {
      const { ttlMs } = renewals[i] ?? hold
      hold.answered(outcomes[i] ?? 'unknown', sentAt, ttlMs, failure)
    })
  }
}
