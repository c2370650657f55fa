import { Wake } from '@locks/core/adapter'
import type { AcquireRequest, Clock, Versioned, VersionedStore } from '@locks/core/adapter'
import type { Observations } from './observations.ts'
import type { Held } from './record.ts'

/** A hint may be lost, so a waiter looks again after a part of the lease, but not more often than this. */
const MIN_LOOK_MS = 100
const MAX_LOOK_MS = 5_000
const LOOKS_PER_LEASE = 5

/** Back-off with full jitter where the store sends no hints. */
const POLL_MS = 50
const MAX_POLL_MS = 1_000

/** One of the waiters that a release wakes gets the lock; the others come a little later next time. */
const BEATEN_MS = 2
const MAX_BEATEN_MS = 64

interface Waiter {
  readonly name: string
  readonly wake: Wake
  /** Whether a change caused the last look. */
  woken: boolean
  /** How many times in a row a release woke it and another client was faster. */
  beaten: number
  /** The store sends no hints for it. */
  blind: boolean
  blindLooks: number
  stop: (() => void) | undefined
}

/** The waiting requests of one client, and the hints about their names. */
export class Waiters {
  readonly #store: VersionedStore
  readonly #clock: Clock
  readonly #seen: Observations
  readonly #waiters = new Map<string, Waiter>()

  constructor(store: VersionedStore, clock: Clock, seen: Observations) {
    this.#store = store
    this.#clock = clock
    this.#seen = seen
  }

  /** When to look again at a record that has `remainingMs` to stand. */
  retryInMs({ ttlMs }: Held, remainingMs: number): number {
    if (this.#store.watch === undefined) return Math.max(1, remainingMs)
    const look = Math.min(MAX_LOOK_MS, Math.max(MIN_LOOK_MS, ttlMs / LOOKS_PER_LEASE))
    // Many waiters do not look all at once.
    return Math.max(1, Math.min(remainingMs, look * (0.5 + this.#clock.random() / 2)))
  }

  begin({ attemptId, name }: AcquireRequest): void {
    const known = this.#waiters.get(attemptId)
    if (known !== undefined) {
      if (known.woken) known.beaten += 1
      return
    }
    const waiter: Waiter = {
      name,
      wake: new Wake(this.#clock),
      woken: false,
      // The look after the watch began is not a race.
      beaten: -1,
      blind: false,
      blindLooks: 0,
      stop: undefined,
    }
    this.#waiters.set(attemptId, waiter)
    void this.#watch(attemptId, waiter)
  }

  /** A look at the name begins, which shows all changes so far. */
  looking(attemptId: string): void {
    this.#waiters.get(attemptId)?.wake.clear()
  }

  /** Until there is something to see, at most `maxMs`. */
  async wait(attemptId: string, maxMs: number, signal: AbortSignal): Promise<void> {
    const waiter = this.#waiters.get(attemptId)
    if (waiter === undefined) return
    const poll = Math.min(MAX_POLL_MS, POLL_MS * 2 ** Math.min(waiter.blindLooks, 10)) * this.#clock.random()
    if (waiter.blind) waiter.blindLooks += 1
    const sleepMs = waiter.blind ? Math.min(maxMs, Math.max(1, poll)) : maxMs
    waiter.woken = (await waiter.wake.sleep(sleepMs, { signal })) === 'due'
  }

  /** Returns whether that request was waiting. */
  end(attemptId: string): boolean {
    const waiter = this.#waiters.get(attemptId)
    if (waiter === undefined) return false
    this.#waiters.delete(attemptId)
    waiter.stop?.()
    waiter.wake.wake()
    return true
  }

  close(): void {
    for (const attemptId of [...this.#waiters.keys()]) this.end(attemptId)
  }

  async #watch(attemptId: string, waiter: Waiter): Promise<void> {
    try {
      const stop = await this.#store.watch?.(waiter.name, (current) => this.#hint(waiter, current))
      if (this.#waiters.get(attemptId) === waiter) waiter.stop = stop
      else stop?.()
    } catch {
      // It polls with back-off, as on a store without hints.
      waiter.blind = true
    }
    // Changes before the watch began need a look.
    this.#wake(waiter)
  }

  #hint(waiter: Waiter, current: Versioned | undefined): void {
    if (current === undefined) return this.#wake(waiter)
    const at = this.#seen.hint(waiter.name, current)
    // The next look finds out when a name that stays taken after its release is free.
    if (at.held === undefined || at.held.keptUntil !== undefined) return this.#wake(waiter)
    // Another client was faster, or the holder renewed it: nothing to see for now.
    waiter.wake.sleepOn()
  }

  #wake(waiter: Waiter): void {
    const ceiling = waiter.beaten <= 0 ? 0 : Math.min(MAX_BEATEN_MS, BEATEN_MS * 2 ** waiter.beaten)
    waiter.wake.wakeBy(this.#clock.now() + this.#clock.random() * ceiling)
  }
}
