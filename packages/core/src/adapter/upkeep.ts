import { orAfter } from './time.ts'
import type { Clock } from './time.ts'
import type { Pruned } from './spi.ts'

/** How long a name is idle before a store may drop what it keeps about it. The default of `fenceIdleMs`. */
export const FENCE_IDLE_MS = 86_400_000

/** The longest `fenceIdleMs`: a year. */
export const MAX_FENCE_IDLE_MS = 31_536_000_000

/** Idle names are searched for this many times per idle time, and at least every `MAX_GAP_MS`. */
const LOOKS_PER_IDLE = 8
const MAX_GAP_MS = 600_000

/**
 * The share of clients whose first release prunes. A step drops hundreds of names, so programs that use one name each
 * drop more than they leave. It is rare enough to cost them less than a hundredth of a statement each.
 */
export const EARLY_SHARE: number = 1 / 256

/** How long `close` waits for a step. What is under way then is cut off with the connections. */
const CLOSE_MS = 1_000

/**
 * Prunes idle names after releases: one bounded step at a time, which no release waits for. If a step leaves some, the
 * next release starts another one; otherwise there is a pause. A failed step counts as one that found nothing, so
 * pruning never affects a caller.
 */
export class Upkeep {
  readonly #clock: Clock
  readonly #gapMs: number
  readonly #step: () => Promise<Pruned>
  #dueAt: number
  #running: Promise<void> | undefined
  #closed = false

  /** With an `idleMs` of 0 nothing is ever pruned. */
  constructor(clock: Clock, idleMs: number, step: () => Promise<Pruned>) {
    this.#clock = clock
    this.#gapMs = Math.min(MAX_GAP_MS, idleMs / LOOKS_PER_IDLE)
    this.#step = step
    // Clients that start together do not prune together. Most short-lived clients do not prune at all.
    const random = clock.random()
    const firstMs = random < EARLY_SHARE ? 0 : this.#gapMs * (0.5 + random / 2)
    this.#dueAt = idleMs === 0 ? Infinity : clock.now() + firstMs
  }

  /** Called after each release. */
  released(): void {
    if (this.#closed || this.#clock.now() < this.#dueAt) return
    this.#dueAt = Infinity
    this.#running = this.#run()
  }

  /** Stops, after the step that is under way or a second. */
  async close(): Promise<void> {
    this.#closed = true
    if (this.#running !== undefined) await orAfter(this.#clock, CLOSE_MS, this.#running, { keepAlive: true })
  }

  async #run(): Promise<void> {
    let more = false
    try {
      more = (await this.#step()).more
    } catch {
      // The next one may succeed.
    }
    this.#dueAt = this.#clock.now() + (more ? 0 : this.#gapMs)
  }
}

/** About how long one step of a long scan takes. */
const STEP_MS = 200

type Look = (idleMs: number, names?: readonly string[]) => AsyncGenerator<number, void>

/** Scans a whole store in steps, for `prune`. Each step continues where the last one stopped. */
export class PruneSteps {
  readonly #clock: Clock
  readonly #look: Look
  /** Those that are not complete, by what they were asked for: one must not make another begin anew. */
  readonly #passes = new Map<string, AsyncGenerator<number, void>>()

  /** `look` yields now and then the number of names it has dropped since its last yield. */
  constructor(clock: Clock, look: Look) {
    this.#clock = clock
    this.#look = look
  }

  async step(idleMs: number, names?: readonly string[]): Promise<Pruned> {
    const key = JSON.stringify([idleMs, names])
    const pass = this.#passes.get(key) ?? this.#look(idleMs, names)
    this.#passes.set(key, pass)
    const until = this.#clock.now() + STEP_MS
    let pruned = 0
    try {
      do {
        const next = await pass.next()
        if (next.done === true) {
          this.#forget(key, pass)
          return { pruned, more: false }
        }
        pruned += next.value
      } while (this.#clock.now() < until)
    } catch (error) {
      this.#forget(key, pass)
      throw error
    }
    return { pruned, more: true }
  }

  /** Ends the scans that are not complete, so that another client may begin one. */
  async close(): Promise<void> {
    const passes = [...this.#passes.values()]
    this.#passes.clear()
    await Promise.all(passes.map((pass) => pass.return()))
  }

  #forget(key: string, pass: unknown): void {
    if (this.#passes.get(key) === pass) this.#passes.delete(key)
  }
}
