import { boundedCall } from './deadlines.ts'
import type { Context } from './context.ts'
import type { Hold } from './hold.ts'
import type { Alarm, AlarmTarget } from './deadlines.ts'

const FIRST_DELAY_MS = 250
const MAX_DELAY_MS = 5_000

/** The releases of one client that were not confirmed and go on in the background. */
export class LateReleases {
  readonly #context: Context
  readonly #open = new Set<LateRelease>()

  constructor(context: Context) {
    this.#context = context
  }

  start(hold: Hold): void {
    if (this.#context.closed) return
    const release = new LateRelease(this.#context, this.#open, hold)
    this.#open.add(release)
    release.arm()
  }

  /** The client closes: each is tried once more, now. */
  finish(): void {
    for (const release of [...this.#open]) release.finish()
  }
}

/**
 * Repeats a release that failed and that no caller waits for, so that a short outage does not leave the lock held until
 * its ttl ends. It stops when the store answers, at the deadline of the lease, or when the client closes. It does not
 * keep the process alive between two tries.
 */
class LateRelease implements AlarmTarget {
  readonly #context: Context
  readonly #open: Set<LateRelease>
  readonly #hold: Hold
  readonly #alarm: Alarm
  #delayMs = FIRST_DELAY_MS

  constructor(context: Context, open: Set<LateRelease>, hold: Hold) {
    this.#context = context
    this.#open = open
    this.#hold = hold
    this.#alarm = context.timers.alarm(this, 'unref')
  }

  arm(): void {
    const at = this.#context.clock.now() + this.#delayMs
    this.#delayMs = Math.min(this.#delayMs * 2, MAX_DELAY_MS)
    if (at < this.#hold.term.deadline) this.#alarm.set(at)
    else this.#open.delete(this)
  }

  fire(): void {
    // After a failure it goes on, unless the client was closed meanwhile.
    void this.#release().catch(() => this.#open.has(this) && this.arm())
  }

  finish(): void {
    this.#open.delete(this)
    this.#alarm.cancel()
    void this.#context.inBackground(this.#release())
  }

  async #release(): Promise<void> {
    const hold = this.#hold
    const call = (): Promise<unknown> => hold.releaseAtStore()
    const released = boundedCall(this.#context, hold.grant.name, call, { retry: false })
    void this.#context.inBackground(released)
    await released
    this.#open.delete(this)
  }
}
