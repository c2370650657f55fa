import { Wake } from '@locks/core/adapter'
import type { AcquireRequest, Clock, PushedGrant } from '@locks/core/adapter'
import { newSecret, tagOf } from './messages.ts'

/** At least this long between two looks that messages cause: every role may send messages. */
const HINT_GAP_MS = 1_000

export interface Waiter {
  readonly request: AcquireRequest
  /** What messages call it. */
  readonly tag: string
  /** Proves a grant. New for each wait: a message for an earlier one proves nothing. */
  readonly secret: string
  readonly sleep: Wake
  grant?: PushedGrant
  /** When a message last caused a look. */
  hintedAt?: number
}

/** The attempts of this client in the store's queue, and the messages that arrived for them. */
export class Waiters {
  readonly #clock: Clock
  readonly #waiters = new Map<string, Waiter>()
  readonly #tagged = new Map<string, Waiter>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Keeps messages for `request` from now on. Call it before each question to the store, which answers older ones. */
  expect(request: AcquireRequest): Waiter {
    const known = this.#waiters.get(request.attemptId)
    if (known !== undefined) {
      known.sleep.clear()
      return known
    }
    const sleep = new Wake(this.#clock)
    const wait: Waiter = { request, tag: tagOf(request.attemptId), secret: newSecret(), sleep }
    this.#waiters.set(request.attemptId, wait)
    this.#tagged.set(wait.tag, wait)
    return wait
  }

  /** Ends the wait of an attempt, if there is one. */
  forget(attemptId: string): Waiter | undefined {
    const wait = this.#waiters.get(attemptId)
    if (wait === undefined) return undefined
    this.#waiters.delete(attemptId)
    this.#tagged.delete(wait.tag)
    wait.sleep.wake()
    return wait
  }

  tagged(tag: string): Waiter | undefined {
    return this.#tagged.get(tag)
  }

  /** Ends a wait: with a grant, or, where the grant cannot be dated, to look at the store. */
  granted({ tag }: Waiter, grant: PushedGrant | undefined): void {
    const wait = this.#tagged.get(tag)
    if (wait === undefined) return
    if (grant !== undefined) wait.grant = grant
    wait.sleep.wake()
  }

  /** A message says that the store is worth a look in `ms`. */
  hint(tag: string, ms: number): void {
    const wait = this.#tagged.get(tag)
    wait?.sleep.wakeBy(Math.max(this.#clock.now() + ms, (wait.hintedAt ?? -Infinity) + HINT_GAP_MS))
  }

  wakeAll(): void {
    for (const { sleep } of this.#waiters.values()) sleep.wake()
  }

  /** Sleeps until a grant arrives, `maxMs` are over, or there is reason to look at the store. */
  async until(attemptId: string, maxMs: number, signal: AbortSignal): Promise<PushedGrant | undefined> {
    const wait = this.#waiters.get(attemptId)
    if (wait === undefined) return undefined
    if (wait.grant === undefined && (await wait.sleep.sleep(maxMs, { signal })) === 'due')
      wait.hintedAt = this.#clock.now()
    const { grant } = wait
    if (grant !== undefined) this.forget(attemptId)
    return grant
  }
}
