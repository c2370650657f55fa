import type { Clock } from '../adapter/clock.ts'
import { graceMs, Patience } from '../adapter/patience.ts'
import { isFinal, storeError } from '../api/errors.ts'
import type { LockError } from '../api/errors.ts'
import { defaultSettings } from '../api/options.ts'
import { backoffMs } from './backoff.ts'
import type { Alarm, AlarmTarget, Timers } from './timers.ts'

/** What bounds the calls of a client. */
interface Bounds {
  readonly clock: Clock
  readonly timers: Timers
  readonly storeTimeoutMs: number
}

interface CallOptions {
  /** Whether to try again after a rejection. Only for idempotent calls. */
  readonly retry: boolean
  /** From when its time counts, by the client's clock. Default: now. */
  readonly since?: number
}

/**
 * One call to the store that always ends: with an answer, or with `LOCK_UNAVAILABLE` after the client's
 * `storeTimeoutMs`, even if the adapter never settles. After a pause of this process the answer gets a grace period.
 */
export function boundedCall<T>(
  bounds: Bounds,
  lock: string,
  call: () => Promise<T>,
  options: CallOptions,
): Promise<{ readonly answer: T; readonly tries: number }> {
  return new Promise((resolve, reject) => {
    new BoundedCall(bounds, lock, call, options, resolve, reject).start()
  })
}

class BoundedCall<T> implements AlarmTarget {
  readonly #bounds: Bounds
  readonly #alarm: Alarm
  readonly #lock: string
  readonly #call: () => Promise<T>
  readonly #retry: boolean
  readonly #resolve: (result: { answer: T; tries: number }) => void
  readonly #reject: (error: LockError) => void
  #giveUpAt: number
  #patience: Patience | undefined
  #tries = 0
  #waiting = false
  #done = false
  #failure: unknown

  constructor(
    bounds: Bounds,
    lock: string,
    call: () => Promise<T>,
    { retry, since = bounds.clock.now() }: CallOptions,
    resolve: (result: { answer: T; tries: number }) => void,
    reject: (error: LockError) => void,
  ) {
    this.#bounds = bounds
    this.#lock = lock
    this.#call = call
    this.#retry = retry
    this.#resolve = resolve
    this.#reject = reject
    this.#alarm = bounds.timers.alarm(this, 'ref')
    this.#giveUpAt = since + bounds.storeTimeoutMs
  }

  start(): void {
    this.#alarm.set(this.#giveUpAt)
    void this.#try()
  }

  fire(now: number): void {
    if (now >= this.#giveUpAt) {
      this.#patience ??= new Patience()
      if (!this.#patience.forgives(this.#giveUpAt, now)) return this.#fail()
      this.#giveUpAt = now + graceMs(this.#bounds.storeTimeoutMs)
    }
    if (this.#waiting) this.start()
    else this.#alarm.set(this.#giveUpAt)
  }

  async #try(): Promise<void> {
    this.#waiting = false
    this.#tries += 1
    try {
      const answer = await this.#call()
      if (this.#end()) this.#resolve({ answer, tries: this.#tries })
    } catch (error) {
      if (this.#done) return
      this.#failure = error
      if (!this.#retry || isFinal(error)) return this.#fail()
      this.#waiting = true
      const { clock } = this.#bounds
      const again = clock.now() + backoffMs(this.#tries, defaultSettings, clock)
      this.#alarm.set(Math.min(again, this.#giveUpAt))
    }
  }

  #fail(): void {
    if (!this.#end()) return
    this.#reject(storeError(this.#lock, this.#failure))
  }

  #end(): boolean {
    if (this.#done) return false
    this.#done = true
    this.#alarm.cancel()
    return true
  }
}
