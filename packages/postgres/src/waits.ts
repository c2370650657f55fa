import type { AcquireRequest, Clock, PushedGrant } from '@locks/core'

interface Wait {
  readonly request: AcquireRequest
  grant?: PushedGrant
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

  /** From now on a grant for `request` is kept, however early it is heard. */
  expect(request: AcquireRequest): void {
    if (!this.#waits.has(request.attemptId)) this.#waits.set(request.attemptId, { request })
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
    this.#waits.get(attemptId)?.within?.(ms)
  }

  wakeAll(): void {
    for (const { wake } of this.#waits.values()) wake?.()
  }

  /** Until a grant is heard, `maxMs` are over, or the wait is ended otherwise. */
  async until(attemptId: string, maxMs: number, signal: AbortSignal): Promise<PushedGrant | undefined> {
    const wait = this.#waits.get(attemptId)
    if (wait === undefined) return undefined
    if (wait.grant === undefined && !signal.aborted) await this.#sleep(wait, maxMs, signal)
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
