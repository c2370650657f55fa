import type { Alarm } from './alarms.ts'
import type { Client } from './client.ts'
import type { Hold } from './hold.ts'
import { callStore } from './store-call.ts'

const FIRST_DELAY_MS = 250
const MAX_DELAY_MS = 5_000

/**
 * Repeats a release that failed and that no caller waits for, so that a passing error does not leave the lock held
 * until its ttl. It ends once the store answers, at the lease's own deadline, or with the client. It does not keep the
 * process alive between two tries.
 */
export class LateRelease implements Alarm {
  at = 0
  slackMs = 0
  slot = -1
  readonly keepsAlive = false
  readonly #client: Client
  readonly #hold: Hold
  readonly #until: number
  #delayMs = FIRST_DELAY_MS

  constructor(client: Client, hold: Hold, until: number) {
    this.#client = client
    this.#hold = hold
    this.#until = until
  }

  start(): void {
    if (this.#client.closed) return
    this.#client.lateReleases.add(this)
    this.#arm()
  }

  fire(): void {
    // A failure is one more reason to go on, unless the client was closed meanwhile.
    void this.#release().catch(() => this.#client.lateReleases.has(this) && this.#arm())
  }

  /** The client closes: one last try, now. */
  finish(): void {
    this.#client.lateReleases.delete(this)
    this.#client.alarms.cancel(this)
    void this.#client.inBackground(this.#release())
  }

  #arm(): void {
    const at = this.#client.clock.now() + this.#delayMs
    this.#delayMs = Math.min(this.#delayMs * 2, MAX_DELAY_MS)
    if (at < this.#until) this.#client.alarms.set(this, at)
    else this.#client.lateReleases.delete(this)
  }

  async #release(): Promise<void> {
    const hold = this.#hold
    const call = (): Promise<unknown> => hold.releaseAtStore()
    const released = callStore(this.#client, hold.grant.name, call, { retry: false })
    void this.#client.inBackground(released)
    await released
    this.#client.lateReleases.delete(this)
  }
}
