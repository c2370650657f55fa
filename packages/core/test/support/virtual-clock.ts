import type { Clock, Timer } from '../../src/adapter/time.ts'

interface Pending {
  readonly at: number
  readonly order: number
  readonly fire: () => void
  kept: boolean
}

/** A clock that only the test moves. */
export class VirtualClock implements Clock {
  /** Timers created so far, to count how often a client re-arms. */
  created = 0
  readonly #pending = new Set<Pending>()
  #now = 1_000
  #random = 0.5

  now(): number {
    return this.#now
  }

  random(): number {
    return this.#random
  }

  /** What `random` returns from now on. */
  fixRandom(value: number): void {
    this.#random = value
  }

  timer(delayMs: number, fire: () => void): Timer {
    const entry: Pending = {
      at: this.#now + Math.max(0, delayMs),
      order: (this.created += 1),
      fire,
      kept: false,
    }
    this.#pending.add(entry)
    return {
      cancel: () => void this.#pending.delete(entry),
      keepAlive: (yes) => void (entry.kept = yes),
    }
  }

  /** Timers that are armed now. */
  get armed(): number {
    return this.#pending.size
  }

  /** Whether an armed timer would keep a real process alive. */
  get keepsAlive(): boolean {
    return [...this.#pending].some((entry) => entry.kept)
  }

  /** Time passes and no timer runs, as in a blocked event loop. */
  block(ms: number): void {
    this.#now += ms
  }

  /** Time passes: timers run in order, each at its time, and promises settle in between. */
  async advance(ms: number): Promise<void> {
    const target = this.#now + ms
    await settled()
    for (let next = this.#next(target); next !== undefined; next = this.#next(target)) {
      this.#pending.delete(next)
      this.#now = Math.max(this.#now, next.at)
      next.fire()
      await settled()
    }
    this.#now = Math.max(this.#now, target)
  }

  #next(target: number): Pending | undefined {
    let first: Pending | undefined
    for (const entry of this.#pending) {
      if (entry.at > target) continue
      if (first === undefined || entry.at < first.at || (entry.at === first.at && entry.order < first.order))
        first = entry
    }
    return first
  }
}

/** Every promise that can settle without time passing has settled. */
export function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
