import { graceMs, Patience } from '../adapter/patience.ts'
import type { Alarm } from './timers.ts'
import { backoffMs } from './backoff.ts'
import type { Context } from './context.ts'
import { isFinal, storeError } from '../api/errors.ts'
import type { LockError } from '../api/errors.ts'
import { defaultSettings } from '../api/options.ts'

interface CallOptions {
  /** Whether a rejection is tried again: only for calls that are idempotent. */
  readonly retry: boolean
  /** From when its time counts, on the client's clock. Default: now. */
  readonly since?: number
}

/**
 * One call to the store that always ends: it answers, or fails as `LOCK_UNAVAILABLE` after the
 * client's `storeTimeoutMs`, even if the adapter never settles. After a pause of this process the answer gets a grace.
 */
export function boundedCall<T>(
  context: Context,
  lock: string,
  call: () => Promise<T>,
  options: CallOptions,
): Promise<{ readonly answer: T; readonly tries: number }> {
  return new Promise((resolve, reject) => {
    new BoundedCall(context, lock, call, options, resolve, reject).start()
  })
}

class BoundedCall<T> implements Alarm {
  at = 0
  slackMs = 0
  slot = -1
  readonly keepsAlive = true
  readonly #context: Context
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
    context: Context,
    lock: string,
    call: () => Promise<T>,
    { retry, since = context.clock.now() }: CallOptions,
    resolve: (result: { answer: T; tries: number }) => void,
    reject: (error: LockError) => void,
  ) {
    this.#context = context
    this.#lock = lock
    this.#call = call
    this.#retry = retry
    this.#resolve = resolve
    this.#reject = reject
    this.#giveUpAt = since + context.storeTimeoutMs
  }

  start(): void {
    this.#context.timers.set(this, this.#giveUpAt)
    void this.#try()
  }

  fire(now: number): void {
    if (now >= this.#giveUpAt) {
      this.#patience ??= new Patience()
      if (!this.#patience.forgives(this.#giveUpAt, now)) return this.#fail()
      this.#giveUpAt = now + graceMs(this.#context.storeTimeoutMs)
    }
    if (this.#waiting) this.start()
    else this.#context.timers.set(this, this.#giveUpAt)
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
      const { timers, clock } = this.#context
      const again = clock.now() + backoffMs(this.#tries, defaultSettings, clock)
      timers.set(this, Math.min(again, this.#giveUpAt))
    }
  }

  #fail(): void {
    if (!this.#end()) return
    this.#reject(storeError(this.#lock, this.#failure))
  }

  #end(): boolean {
    if (this.#done) return false
    this.#done = true
    this.#context.timers.cancel(this)
    return true
  }
}
