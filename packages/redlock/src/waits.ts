import type { AcquireRequest, Busy, Clock } from '@locks/core'
import type { Refused } from './attempt.ts'
import type { Nodes } from './nodes.ts'

/** Split votes settle when the next tries of their voters are far enough apart, so that is doubled each time. */
const FIRST_STEP_MS = 20
const MAX_STEP_MS = 1_000

/** Those who hear of a release do not all try in the same moment. */
const WAKE_SPREAD_MS = 15

/** Nobody relies on having heard everything for longer than this. */
const MAX_POLL_MS = 10_000

/** Waiting by the nodes' own notices of releases, and by looking again after a while that is never the same. */
export class Waits {
  readonly #nodes: Nodes
  readonly #clock: Clock
  /** How often in a row an attempt met a split vote. */
  readonly #splits = new Map<string, number>()
  readonly #watches = new Map<string, { waiters: Set<() => void>; end: () => void }>()

  constructor(nodes: Nodes, clock: Clock) {
    this.#nodes = nodes
    this.#clock = clock
  }

  busy({ attemptId, willWait }: AcquireRequest, { holder, settled, leftMs }: Refused): Busy {
    if (settled) this.#splits.delete(attemptId)
    const soon = Math.min(leftMs + this.#upTo(FIRST_STEP_MS), MAX_POLL_MS)
    const retryInMs = settled ? soon : this.#backOff(attemptId, willWait)
    return holder === undefined ? { busy: true, retryInMs } : { busy: true, holder, retryInMs }
  }

  async wait({ name, attemptId }: AcquireRequest, maxMs: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    const split = this.#splits.has(attemptId)
    await new Promise<void>((resolve) => {
      let timer = this.#clock.timer(maxMs, () => done())
      const wake = (): void => {
        timer.cancel()
        timer = this.#clock.timer(this.#upTo(WAKE_SPREAD_MS), () => done())
      }
      // In a split vote everybody's giving up is a release: who listened to that would never back off.
      const unwatch = split ? () => undefined : this.#watch(name, wake)
      const done = (): void => {
        timer.cancel()
        signal.removeEventListener('abort', done)
        unwatch()
        resolve()
      }
      signal.addEventListener('abort', done)
    })
  }

  over(attemptId: string): void {
    this.#splits.delete(attemptId)
  }

  close(): void {
    for (const { end } of this.#watches.values()) end()
    this.#watches.clear()
  }

  #backOff(attemptId: string, willWait: boolean): number {
    const splits = this.#splits.get(attemptId) ?? 0
    if (willWait) this.#splits.set(attemptId, splits + 1)
    return this.#upTo(Math.min(FIRST_STEP_MS * 2 ** Math.min(splits, 10), MAX_STEP_MS))
  }

  #upTo(ms: number): number {
    return Math.max(1, Math.round(this.#clock.random() * ms))
  }

  /** One subscription per name and node, however many wait. */
  #watch(name: string, wake: () => void): () => void {
    let watch = this.#watches.get(name)
    if (watch === undefined) {
      const waiters = new Set<() => void>()
      const all = (): void => waiters.forEach((one) => one())
      const ends = this.#nodes.all.map((node) => node.watch(name, all))
      watch = { waiters, end: () => ends.forEach((end) => end()) }
      this.#watches.set(name, watch)
    }
    const { waiters, end } = watch
    waiters.add(wake)
    return () => {
      waiters.delete(wake)
      if (waiters.size > 0 || this.#watches.get(name)?.waiters !== waiters) return
      this.#watches.delete(name)
      end()
    }
  }
}
