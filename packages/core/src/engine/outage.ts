import { graceMs, Patience } from '../adapter/patience.ts'
import type { Holder } from '../adapter/spi.ts'

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
