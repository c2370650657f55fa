import type { Client } from './client.ts'
import type { Hold } from './hold.ts'
import type { RenewOutcome } from './spi.ts'

/** Sends the renewals that fall due together to the adapter together. */
export class Renewer {
  readonly #client: Client
  #due: Hold[] = []

  constructor(client: Client) {
    this.#client = client
  }

  add(hold: Hold): void {
    // The alarms of one ring all fire before this microtask runs.
    if (this.#due.push(hold) === 1) queueMicrotask(() => void this.#flush())
  }

  async #flush(): Promise<void> {
    const holds = this.#due.filter((hold) => hold.live)
    this.#due = []
    if (holds.length === 0) return
    const sentAt = this.#client.clock.now()
    const renewals = holds.map((hold) => hold.renewal(sentAt))
    let outcomes: readonly RenewOutcome[] = []
    let failure: unknown
    try {
      outcomes = await this.#client.adapter.renew(renewals)
    } catch (error) {
      failure = error
    }
    holds.forEach((hold, i) => {
      const { ttlMs } = renewals[i] ?? hold
      hold.answered(outcomes[i] ?? 'unknown', sentAt, ttlMs, failure)
    })
  }
}
