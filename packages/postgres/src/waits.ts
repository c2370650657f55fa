import type { AcquireRequest, Clock, PushedGrant, Timer } from '@locks/core/adapter'
import { newSecret, tagOf } from './messages.ts'

/** At least this long between two looks that messages cause: every role may send one. */
const HINT_GAP_MS = 1_000

export interface Wait {
  readonly request: AcquireRequest
  /** What messages call it. */
  readonly tag: string
  /** What proves a grant. It is new for each wait: a message for an earlier one proves nothing. */
  readonly secret: string
}

interface Waiting extends Wait {
  grant?: PushedGrant
  /** Heard while nobody slept here: when to look again at the latest. */
  lookAt?: number
  /** When a message last made it look. */
  hintedAt?: number
  /** Ends the wait. */
  wake?: () => void
  /** Ends it then at the latest. */
  before?: (at: number) => void
}

/** The attempts of this client that stand in the store's queue, and what was heard for them. */
export class Waits {
  readonly #clock: Clock
  readonly #waits = new Map<string, Waiting>()
  readonly #tagged = new Map<string, Waiting>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** From now on what is heard for `request` is kept, however early. To be called before the store is asked (anew). */
  expect(request: AcquireRequest): Wait {
    const known = this.#waits.get(request.attemptId)
    if (known !== undefined) {
      delete known.lookAt
      return known
    }
    const wait: Waiting = { request, tag: tagOf(request.attemptId), secret: newSecret() }
    this.#waits.set(request.attemptId, wait)
    this.#tagged.set(wait.tag, wait)
    return wait
  }

  /** Ends the wait of an attempt, if there is one. */
  forget(attemptId: string): Wait | undefined {
    const wait = this.#waits.get(attemptId)
    if (wait === undefined) return undefined
    this.#waits.delete(attemptId)
    this.#tagged.delete(wait.tag)
    wait.wake?.()
    return wait
  }

  tagged(tag: string): Wait | undefined {
    return this.#tagged.get(tag)
  }

  /** Ends a wait with a grant, or for a look at the store where the grant cannot be dated. */
  granted({ tag }: Wait, grant: PushedGrant | undefined): void {
    const wait = this.#tagged.get(tag)
    if (wait === undefined) return
    if (grant !== undefined) wait.grant = grant
    wait.wake?.()
  }

  /** A message says that there is something to see in `ms`. */
  hint(tag: string, ms: number): void {
    const wait = this.#tagged.get(tag)
    if (wait === undefined) return
    const at = Math.max(this.#clock.now() + ms, (wait.hintedAt ?? -Infinity) + HINT_GAP_MS)
    if (wait.before !== undefined) wait.before(at)
    else wait.lookAt = Math.min(wait.lookAt ?? Infinity, at)
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
    if (wait.grant === undefined && !signal.aborted)
      await this.#sleep(wait, this.#clock.now() + maxMs, signal)
    const { grant } = wait
    if (grant !== undefined) this.forget(attemptId)
    return grant
  }

  #sleep(wait: Waiting, until: number, signal: AbortSignal): Promise<void> {
    const clock = this.#clock
    let endsAt = until
    return new Promise((resolve) => {
      let timer: Timer | undefined
      const before = (at: number): void => {
        if (at > endsAt || (timer !== undefined && at === endsAt)) return
        endsAt = at
        timer?.cancel()
        if (at > clock.now()) timer = clock.timer(at - clock.now(), timeOut)
        else timeOut()
      }
      const timeOut = (): void => {
        if (endsAt < until) wait.hintedAt = clock.now()
        done()
      }
      const done = (): void => {
        timer?.cancel()
        signal.removeEventListener('abort', done)
        if (wait.wake === done) {
          delete wait.wake
          delete wait.before
        }
        resolve()
      }
      signal.addEventListener('abort', done, { once: true })
      wait.wake = done
      wait.before = before
      before(Math.min(until, wait.lookAt ?? Infinity))
    })
  }
}
