import type { Alarm } from './timers.ts'
import type { Context } from './context.ts'
import type { Hold } from './hold.ts'
import { boundedCall } from './bounded-call.ts'

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
  readonly #context: Context
  readonly #hold: Hold
  readonly #until: number
  #delayMs = FIRST_DELAY_MS

  constructor(context: Context, hold: Hold, until: number) {
    this.#context = context
    this.#hold = hold
    this.#until = until
  }

  start(): void {
    if (this.#context.closed) return
    this.#context.lateReleases.add(this)
    this.#arm()
  }

  fire(): void {
    // A failure is one more reason to go on, unless the client was closed meanwhile.
    void this.#release().catch(() => this.#context.lateReleases.has(this) && this.#arm())
  }

  /** The client closes: one last try, now. */
  finish(): void {
    this.#context.lateReleases.delete(this)
    this.#context.timers.cancel(this)
    void this.#context.inBackground(this.#release())
  }

  #arm(): void {
    const at = this.#context.clock.now() + this.#delayMs
    this.#delayMs = Math.min(this.#delayMs * 2, MAX_DELAY_MS)
    if (at < this.#until) this.#context.timers.set(this, at)
    else this.#context.lateReleases.delete(this)
  }

  async #release(): Promise<void> {
    const hold = this.#hold
    const call = (): Promise<unknown> => hold.releaseAtStore()
    const released = boundedCall(this.#context, hold.grant.name, call, { retry: false })
    void this.#context.inBackground(released)
    await released
    this.#context.lateReleases.delete(this)
  }
}
