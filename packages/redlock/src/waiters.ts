import { Wake } from '@locks/core/adapter'
import type { AcquireRequest, Busy, Clock } from '@locks/core/adapter'
import type { Ahead, Refused } from './attempt.ts'
import type { Nodes } from './nodes.ts'

/** Split votes settle once the next tries of their voters are far enough apart, so the step doubles each time. */
const FIRST_STEP_MS = 20
const MAX_STEP_MS = 1_000

/** Waiters that a release wakes do not all try in the same moment. */
const WAKE_SPREAD_MS = 15

/** Anyone may publish hints. After so many that taught a waiter nothing, it looks only this often for them. */
const VAIN_LOOKS = 3
const SPARING_MS = 250

/** A waiter that was beaten at the first node looks at all of them after this: the winner there may be dead. */
const BEHIND_MS = 250

/** Hints may be lost: every waiter looks again after this. */
const MAX_POLL_MS = 10_000

/** An attempt that was refused, until it is granted or withdrawn. */
interface Waiter {
  /** How many split votes in a row it met. */
  splits: number
  /** The attempt with a majority at the last look. */
  known: Pick<Refused, 'attempt' | 'holder'>
  /** A hint of a release arrived since its last try began. */
  hinted: boolean
  /** When its last try began, and whether a hint caused it. */
  triedAt: number
  woken: boolean
  /** The attempt that kept it out at its last try. */
  blocker: string | undefined
  /** How many tries in a row a hint caused that found nothing new. */
  vain: number
  readonly wake: Wake
  unwatch: (() => void) | undefined
}

const nobody = { attempt: undefined, holder: undefined }

/** Waits for the hints of the nodes about releases, and looks again after a random while. */
export class Waiters {
  readonly #nodes: Nodes
  readonly #clock: Clock
  readonly #waiters = new Map<string, Waiter>()

  constructor(nodes: Nodes, clock: Clock) {
    this.#nodes = nodes
    this.#clock = clock
  }

  /** A try of this attempt begins, which may miss later hints. Returns whether a hint caused it. */
  trying(attemptId: string): boolean {
    const waiter = this.#waiters.get(attemptId)
    if (waiter === undefined) return false
    waiter.woken = waiter.hinted
    waiter.hinted = false
    waiter.triedAt = this.#clock.now()
    return waiter.woken
  }

  busy({ attemptId, willWait }: AcquireRequest, { attempt, holder, settled, remainingMs }: Refused): Busy {
    const splits = this.#waiters.get(attemptId)?.splits ?? 0
    if (willWait) {
      const waiter = this.#waiter(attemptId)
      waiter.splits = settled ? 0 : splits + 1
      waiter.known = { attempt, holder }
      refusedBy(waiter, attempt)
    }
    const retryInMs = settled
      ? Math.min(remainingMs + this.#upTo(FIRST_STEP_MS), MAX_POLL_MS)
      : this.#upTo(Math.min(FIRST_STEP_MS * 2 ** Math.min(splits, 10), MAX_STEP_MS))
    return holder === undefined ? { busy: true, retryInMs } : { busy: true, holder, retryInMs }
  }

  /** Another attempt was first and most likely has the lock by now; its release will send a hint. */
  behind({ attemptId, willWait }: AcquireRequest, ahead: Ahead): Busy {
    if (willWait) {
      const waiter = this.#waiter(attemptId)
      waiter.splits = 0
      refusedBy(waiter, ahead.attempt)
    }
    const known = this.#waiters.get(attemptId)?.known
    // A single node may have another fence than the majority.
    const { holder } = known !== undefined && known.attempt === ahead.attempt ? known : ahead
    const retryInMs = BEHIND_MS + this.#upTo(BEHIND_MS)
    return holder === undefined ? { busy: true, retryInMs } : { busy: true, holder, retryInMs }
  }

  async wait({ name, attemptId }: AcquireRequest, maxMs: number, signal: AbortSignal): Promise<void> {
    const waiter = this.#waiter(attemptId)
    waiter.wake.clear()
    if (waiter.splits === 0) {
      // Watches until the attempt is over: each new subscription would cause one more look.
      waiter.unwatch ??= this.#watch(name, waiter)
      if (waiter.hinted) this.#wakeSoon(waiter)
    }
    await waiter.wake.sleep(maxMs, { signal })
  }

  over(attemptId: string): void {
    this.#waiters.get(attemptId)?.unwatch?.()
    this.#waiters.delete(attemptId)
  }

  close(): void {
    for (const attemptId of this.#waiters.keys()) this.over(attemptId)
  }

  #waiter(attemptId: string): Waiter {
    let waiter = this.#waiters.get(attemptId)
    if (waiter === undefined) {
      const first = { hinted: false, triedAt: this.#clock.now(), woken: false, blocker: undefined, vain: 0 }
      waiter = { ...first, splits: 0, known: nobody, wake: new Wake(this.#clock), unwatch: undefined }
      this.#waiters.set(attemptId, waiter)
    }
    return waiter
  }

  #upTo(ms: number): number {
    return Math.max(1, Math.round(this.#clock.random() * ms))
  }

  #wakeSoon(waiter: Waiter): void {
    const soonest = waiter.vain < VAIN_LOOKS ? 0 : waiter.triedAt + SPARING_MS
    waiter.wake.wakeBy(Math.max(this.#clock.now(), soonest) + this.#upTo(WAKE_SPREAD_MS))
  }

  /** Tasks of one client wait as one, so this is one subscription per name and node. */
  #watch(name: string, waiter: Waiter): () => void {
    const hint = (): void => {
      waiter.hinted = true
      // In a split vote every withdrawal is a release: a waiter that followed those would never back off.
      if (waiter.splits === 0) this.#wakeSoon(waiter)
    }
    const ends = this.#nodes.all.map((node) => node.watch(name, hint))
    return () => ends.forEach((end) => end())
  }
}

/** A try was refused. A hint that led to it was in vain if the same attempt is in the way as before. */
function refusedBy(waiter: Waiter, attempt: string | undefined): void {
  const isSame = attempt !== undefined && attempt === waiter.blocker
  waiter.vain = waiter.woken && isSame ? waiter.vain + 1 : 0
  waiter.blocker = attempt
}
