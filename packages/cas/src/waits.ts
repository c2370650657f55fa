import type { AcquireRequest, Clock, Timer } from '@locks/core/adapter'
import type { Observations } from './observations.ts'
import type { Held } from './record.ts'
import type { Versioned, VersionedStore } from './versioned-store.ts'

/** A hint may be lost, so a waiter looks again after a part of the lease, but not more often than this. */
const MIN_LOOK_MS = 100
const MAX_LOOK_MS = 5_000
const LOOKS_PER_LEASE = 5

/** Back-off with full jitter where nothing tells of changes. */
const POLL_MS = 50
const MAX_POLL_MS = 1_000

/** Of those a release wakes one gets the lock; who was beaten comes a little later next time, or not at all. */
const BEATEN_MS = 2
const MAX_BEATEN_MS = 64

interface Wait {
  readonly name: string
  /** Set by a change since the last look began. */
  news: boolean
  /** Whether that look was for news. */
  woken: boolean
  /** Woken by a release and beaten to it, so many times in a row. */
  beaten: number
  /** Looks without anything to tell of changes. */
  blindLooks: number
  blind: boolean
  stop: (() => void) | undefined
  wake: (() => void) | undefined
  pause: Timer | undefined
}

/** The waiting requests of one client, and what they hear of their names. */
export class Waits {
  readonly #store: VersionedStore
  readonly #clock: Clock
  readonly #seen: Observations
  readonly #waits = new Map<string, Wait>()

  constructor(store: VersionedStore, clock: Clock, seen: Observations) {
    this.#store = store
    this.#clock = clock
    this.#seen = seen
  }

  /** By when to look again at a record that has `remainingMs` to stand. */
  retryInMs({ ttlMs }: Held, remainingMs: number): number {
    if (this.#store.watch === undefined) return Math.max(1, remainingMs)
    const look = Math.min(MAX_LOOK_MS, Math.max(MIN_LOOK_MS, ttlMs / LOOKS_PER_LEASE))
    // Not all at once, where many wait.
    return Math.max(1, Math.min(remainingMs, look * (0.5 + this.#clock.random() / 2)))
  }

  begin({ attemptId, name }: AcquireRequest): void {
    const known = this.#waits.get(attemptId)
    if (known !== undefined) {
      if (known.woken) known.beaten += 1
      return
    }
    const wait: Wait = {
      name,
      news: false,
      woken: false,
      // The look that follows the beginning of the watch is nobody's race.
      beaten: -1,
      blindLooks: 0,
      blind: false,
      stop: undefined,
      wake: undefined,
      pause: undefined,
    }
    this.#waits.set(attemptId, wait)
    void this.#watch(attemptId, wait)
  }

  /** A look at the name begins, which will show what has happened until now. */
  looking(attemptId: string): void {
    const wait = this.#waits.get(attemptId)
    if (wait === undefined) return
    wait.woken = wait.news
    wait.news = false
  }

  /** Until there is something to see, but no longer than `maxMs`. */
  async wait(attemptId: string, maxMs: number, signal: AbortSignal): Promise<void> {
    const wait = this.#waits.get(attemptId)
    if (wait === undefined || wait.news || signal.aborted) return
    const poll = Math.min(MAX_POLL_MS, POLL_MS * 2 ** Math.min(wait.blindLooks, 10)) * this.#clock.random()
    if (wait.blind) wait.blindLooks += 1
    await new Promise<void>((resolve) => {
      const timer = this.#clock.timer(wait.blind ? Math.min(maxMs, Math.max(1, poll)) : maxMs, done)
      signal.addEventListener('abort', done, { once: true })
      wait.wake = done
      function done(): void {
        timer.cancel()
        signal.removeEventListener('abort', done)
        wait?.pause?.cancel()
        if (wait?.wake === done) wait.wake = undefined
        resolve()
      }
    })
  }

  /** Answers whether that request was waiting. */
  end(attemptId: string): boolean {
    const wait = this.#waits.get(attemptId)
    if (wait === undefined) return false
    this.#waits.delete(attemptId)
    wait.stop?.()
    wait.pause?.cancel()
    wait.wake?.()
    return true
  }

  close(): void {
    for (const attemptId of [...this.#waits.keys()]) this.end(attemptId)
  }

  async #watch(attemptId: string, wait: Wait): Promise<void> {
    try {
      const stop = await this.#store.watch?.(wait.name, (current) => this.#hear(wait, current))
      if (this.#waits.get(attemptId) === wait) wait.stop = stop
      else stop?.()
    } catch {
      // Then it is looked at by back-off, like a store that cannot tell.
      wait.blind = true
    }
    // What happened before anybody listened has to be looked for.
    this.#tell(wait)
  }

  #hear(wait: Wait, current: Versioned | undefined): void {
    if (current === undefined) return this.#tell(wait)
    const at = this.#seen.note(wait.name, current)
    // One that stays taken after its release ends at a time of its own, which the next look finds out.
    if (at.held === undefined || at.held.keptUntil !== undefined) return this.#tell(wait)
    // Somebody else was faster, or its holder renewed it: nothing to see for now.
    wait.pause?.cancel()
    wait.pause = undefined
  }

  #tell(wait: Wait): void {
    const ceiling = wait.beaten <= 0 ? 0 : Math.min(MAX_BEATEN_MS, BEATEN_MS * 2 ** wait.beaten)
    const delayMs = this.#clock.random() * ceiling
    wait.pause?.cancel()
    const tell = (): void => {
      wait.news = true
      wait.wake?.()
    }
    if (delayMs < 1) tell()
    else wait.pause = this.#clock.timer(delayMs, tell)
  }
}
