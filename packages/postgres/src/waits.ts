import type { AcquireRequest, Clock, PushedGrant } from '@locks/core'

interface Wait {
  readonly request: AcquireRequest
  grant?: PushedGrant
  /** Heard while nobody slept here: when to look again at the latest. */
  lookAt?: number
  /** Ends the wait. */
  wake?: () => void
  /** Ends it after this long at the latest. */
  within?: (ms: number) => void
}

/** The attempts of this client that stand in the store's queue, and what was heard for them. */
export class Waits {
  readonly #clock: Clock
  readonly #waits = new Map<string, Wait>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** From now on what is heard for `request` is kept, however early. To be called before the store is asked (anew). */
  expect(request: AcquireRequest): void {
    const wait = this.#waits.get(request.attemptId)
    if (wait === undefined) this.#waits.set(request.attemptId, { request })
    else delete wait.lookAt
  }

  forget(attemptId: string): void {
    this.#waits.get(attemptId)?.wake?.()
    this.#waits.delete(attemptId)
  }

  /** Whether somebody waits for it. */
  granted(attemptId: string, grantOf: (request: AcquireRequest) => PushedGrant | undefined): boolean {
    const wait = this.#waits.get(attemptId)
    if (wait === undefined) return false
    const grant = grantOf(wait.request)
    if (grant !== undefined) wait.grant = grant
    wait.wake?.()
    return true
  }

  hurry(attemptId: string, ms: number): void {
    const wait = this.#waits.get(attemptId)
    if (wait === undefined) return
    if (wait.within !== undefined) wait.within(ms)
    else wait.lookAt = Math.min(wait.lookAt ?? Infinity, this.#clock.now() + ms)
  }

  wakeAll(): void {
    for (const wait of this.#waits.values()) {
      if (wait.wake !== undefined) wait.wake()
      else wait.lookAt = -Infinity
    }
  }

  /** Until a grant is heard, `maxMs` are over, or the wait is ended otherwise. */
  async until(attemptId: string, maxMs: number, signal: AbortSignal): Promise<PushedGrant | undefined> {
    const wait = this.#waits.get(attemptId)
    if (wait === undefined) return undefined
    const ms = Math.min(maxMs, (wait.lookAt ?? Infinity) - this.#clock.now())
    if (wait.grant === undefined && ms > 0 && !signal.aborted) await this.#sleep(wait, ms, signal)
    const { grant } = wait
    if (grant !== undefined) this.#waits.delete(attemptId)
    return grant
  }

  #sleep(wait: Wait, maxMs: number, signal: AbortSignal): Promise<void> {
    const clock = this.#clock
    const until = clock.now() + maxMs
    return new Promise((resolve) => {
      let timer = clock.timer(maxMs, done)
      const within = (ms: number): void => {
        if (clock.now() + ms >= until) return
        timer.cancel()
        timer = clock.timer(ms, done)
      }
      function done(): void {
        timer.cancel()
        signal.removeEventListener('abort', done)
        if (wait.wake === done) {
          delete wait.wake
          delete wait.within
        }
        resolve()
      }
      signal.addEventListener('abort', done, { once: true })
      wait.wake = done
      wait.within = within
    })
  }
}
