import type { Holder } from '../adapter/spi.ts'
import { graceMs, Patience } from '../adapter/time.ts'
import type { Clock } from '../adapter/time.ts'
import { isFinal, storeError } from '../adapter/lock-error.ts'
import type { LockError } from '../adapter/lock-error.ts'
import { defaultSettings } from './settings.ts'
import type { Alarm, AlarmTarget, Timers } from './timers.ts'

// How long a store may fail or stay silent, and when it is asked again.

/** Exponential back-off with full jitter: between 1 ms and `delayMs · 2ⁿ`, at most `maxDelayMs`. */
export function backoffMs(
  n: number,
  { delayMs, maxDelayMs }: { readonly delayMs: number; readonly maxDelayMs: number },
  clock: Clock,
): number {
  const ceiling = Math.min(maxDelayMs, delayMs * 2 ** Math.min(n, 30))
  return Math.max(1, clock.random() * ceiling)
}

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

/** A silent store counts as an outage after this long, even if the name was known to be held. */
export const SILENCE_MS = 1_000

/** What stands in the way of a grant: a holder, or a store that fails or stays silent. */
export type Obstacle = { readonly holder: Holder | undefined } | { readonly failure: unknown }

/** How long the store has failed, or owed an answer to, one acquire. */
export class Outage {
  readonly #timeoutMs: number
  /** Since when the store has owed an answer. */
  #since: number | undefined
  #failure: unknown
  #failures = 0
  #patience: Patience | undefined

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /** What the store last failed with, if it has not answered since. */
  get failure(): unknown {
    return this.#failure
  }

  /** When to give up. */
  get endsAt(): number {
    return this.#since === undefined ? Infinity : this.#since + this.#timeoutMs
  }

  isOutage(now: number): boolean {
    return this.#failure !== undefined || (this.#since !== undefined && now - this.#since >= SILENCE_MS)
  }

  /** The store owes an answer from `now` on, if it does not already. */
  owed(now: number): void {
    this.#since ??= now
  }

  /** The store has time until `at` before its silence counts. */
  owedFrom(at: number): void {
    this.#since = at
  }

  /** Nothing is owed. */
  settled(): void {
    this.#since = undefined
  }

  answered(): void {
    this.#since = undefined
    this.#patience = undefined
    this.#failure = undefined
    this.#failures = 0
  }

  /** Returns how often the store has failed since its last answer. */
  failed(error: unknown, now: number): number {
    this.#failure = error
    // A wait that failed was not due until later.
    this.#since = Math.min(this.#since ?? now, now)
    return (this.#failures += 1)
  }

  /** Whether to go on after `endsAt`, because this process was paused and an answer may be waiting to be read. */
  forgives(now: number): boolean {
    this.#patience ??= new Patience()
    if (!this.#patience.forgives(this.endsAt, now)) return false
    this.#since = now - this.#timeoutMs + graceMs(this.#timeoutMs)
    return true
  }
}
