import type { AcquireRequest, Busy, Clock } from '@locks/core/adapter'
import type { Ahead, Refused } from './attempt.ts'
import type { Nodes } from './nodes.ts'

/** Split votes settle when the next tries of their voters are far enough apart, so that is doubled each time. */
const FIRST_STEP_MS = 20
const MAX_STEP_MS = 1_000

/** Those who hear of a release do not all try in the same moment. */
const WAKE_SPREAD_MS = 15

/** Whoever was beaten at the first node looks at them all after this: what is there may be left of a dead one. */
const BEHIND_MS = 250

/** Nobody relies on having heard everything for longer than this. */
const MAX_POLL_MS = 10_000

/** An attempt that has been refused, until it is granted or withdrawn. */
interface Waiter {
  /** How often in a row it met a split vote. */
  splits: number
  /** Who had a majority when last looked. */
  known: Pick<Refused, 'attempt' | 'holder'>
  /** A release was heard since its last try began. */
  heard: boolean
  wake: () => void
  unwatch: (() => void) | undefined
}

const nobody = { attempt: undefined, holder: undefined }

/** Waiting by the nodes' own notices of releases, and by looking again after a while that is never the same. */
export class Waits {
  readonly #nodes: Nodes
  readonly #clock: Clock
  readonly #waiters = new Map<string, Waiter>()
  readonly #watches = new Map<string, { readonly waiters: Set<Waiter>; readonly end: () => void }>()

  constructor(nodes: Nodes, clock: Clock) {
    this.#nodes = nodes
    this.#clock = clock
  }

  /** A try of this attempt begins: what is heard from now on, it may have missed. Answers whether it was woken. */
  trying(attemptId: string): boolean {
    const waiter = this.#waiters.get(attemptId)
    const { heard = false } = waiter ?? {}
    if (waiter !== undefined) waiter.heard = false
    return heard
  }

  busy({ attemptId, willWait }: AcquireRequest, { attempt, holder, settled, leftMs }: Refused): Busy {
    const splits = this.#waiters.get(attemptId)?.splits ?? 0
    if (willWait) {
      const waiter = this.#waiter(attemptId)
      waiter.splits = settled ? 0 : splits + 1
      waiter.known = { attempt, holder }
    }
    const retryInMs = settled
      ? Math.min(leftMs + this.#upTo(FIRST_STEP_MS), MAX_POLL_MS)
      : this.#upTo(Math.min(FIRST_STEP_MS * 2 ** Math.min(splits, 10), MAX_STEP_MS))
    return holder === undefined ? { busy: true, retryInMs } : { busy: true, holder, retryInMs }
  }

  /** Another one got there first, and most likely has the lock by now: its release will be heard. */
  behind({ attemptId, willWait }: AcquireRequest, ahead: Ahead): Busy {
    if (willWait) this.#waiter(attemptId).splits = 0
    const known = this.#waiters.get(attemptId)?.known
    // A single node may know of another fence than the majority.
    const { holder } = known !== undefined && known.attempt === ahead.attempt ? known : ahead
    const retryInMs = BEHIND_MS + this.#upTo(BEHIND_MS)
    return holder === undefined ? { busy: true, retryInMs } : { busy: true, holder, retryInMs }
  }

  async wait({ name, attemptId }: AcquireRequest, maxMs: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    const waiter = this.#waiter(attemptId)
    // In a split vote everybody's giving up is a release: who listened to that would never back off.
    const listens = waiter.splits === 0
    await new Promise<void>((resolve) => {
      let timer = this.#clock.timer(maxMs, () => done())
      const done = (): void => {
        timer.cancel()
        signal.removeEventListener('abort', done)
        waiter.wake = () => undefined
        resolve()
      }
      signal.addEventListener('abort', done)
      if (!listens) return
      waiter.wake = () => {
        waiter.wake = () => undefined
        timer.cancel()
        timer = this.#clock.timer(this.#upTo(Math.min(WAKE_SPREAD_MS, maxMs)), () => done())
      }
      // Listens until the attempt is over: who subscribed for each wait anew would look each time what it missed.
      waiter.unwatch ??= this.#watch(name, waiter)
      if (waiter.heard) waiter.wake()
    })
  }

  over(attemptId: string): void {
    this.#waiters.get(attemptId)?.unwatch?.()
    this.#waiters.delete(attemptId)
  }

  close(): void {
    for (const { end } of this.#watches.values()) end()
    this.#watches.clear()
    this.#waiters.clear()
  }

  #waiter(attemptId: string): Waiter {
    let waiter = this.#waiters.get(attemptId)
    if (waiter === undefined) {
      waiter = { splits: 0, known: nobody, heard: false, wake: () => undefined, unwatch: undefined }
      this.#waiters.set(attemptId, waiter)
    }
    return waiter
  }

  #upTo(ms: number): number {
    return Math.max(1, Math.round(this.#clock.random() * ms))
  }

  /** One subscription per name and node, however many wait. */
  #watch(name: string, waiter: Waiter): () => void {
    let watch = this.#watches.get(name)
    if (watch === undefined) {
      const waiters = new Set<Waiter>()
      const ring = (): void => {
        for (const one of waiters) {
          one.heard = true
          one.wake()
        }
      }
      const ends = this.#nodes.all.map((node) => node.watch(name, ring))
      watch = { waiters, end: () => ends.forEach((end) => end()) }
      this.#watches.set(name, watch)
    }
    const { waiters, end } = watch
    waiters.add(waiter)
    return () => {
      waiters.delete(waiter)
      if (waiters.size > 0 || this.#watches.get(name)?.waiters !== waiters) return
      this.#watches.delete(name)
      end()
    }
  }
}
