import type { Alarm } from './timers.ts'
import { backoffMs } from './backoff.ts'
import type { Context } from './context.ts'
import { isFinal, storeError } from '../api/errors.ts'
import type { LockError } from '../api/errors.ts'
import { defaultSettings } from '../api/options.ts'

/**
 * A time-out that comes later than this shows a pause of the process: timers run before sockets are read, so the
 * answer may have come. It gets a grace of as long again, once, and of `storeTimeoutMs` at most. So a call ends within
 * `storeTimeoutMs`, or within the grace after the end of such a pause.
 */
export const PAUSE_MS = 1_000

export function graceMs({ storeTimeoutMs }: Context): number {
  return Math.min(PAUSE_MS, storeTimeoutMs)
}

/**
 * One call to the store that always ends: it answers, or fails as `LOCK_UNAVAILABLE` after the
 * client's `storeTimeoutMs`, even if the adapter never settles. With `retry` a rejection is tried
 * again until then, so only use it for idempotent calls.
 */
export function boundedCall<T>(
  context: Context,
  lock: string,
  call: () => Promise<T>,
  { retry }: { readonly retry: boolean },
): Promise<{ readonly answer: T; readonly tries: number }> {
  return new Promise((resolve, reject) => {
    new BoundedCall(context, lock, call, retry, resolve, reject).start()
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
  #spared = false
  #tries = 0
  #waiting = false
  #done = false
  #failure: unknown

  constructor(
    context: Context,
    lock: string,
    call: () => Promise<T>,
    retry: boolean,
    resolve: (result: { answer: T; tries: number }) => void,
    reject: (error: LockError) => void,
  ) {
    this.#context = context
    this.#lock = lock
    this.#call = call
    this.#retry = retry
    this.#resolve = resolve
    this.#reject = reject
    this.#giveUpAt = context.clock.now() + context.storeTimeoutMs
  }

  start(): void {
    this.#context.timers.set(this, this.#giveUpAt)
    void this.#try()
  }

  fire(now: number): void {
    if (now >= this.#giveUpAt) {
      if (this.#spared || now - this.#giveUpAt < PAUSE_MS) return this.#fail()
      this.#spared = true
      this.#giveUpAt = now + graceMs(this.#context)
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
