import type { Clock } from '@locks/core'
import type { Timer } from '@locks/core/adapter'

/** A clock that the test moves. Timers run when the test moves it past their time. */
export class HandClock implements Clock {
  readonly timers = new Set<{ at: number; fire: () => void }>()
  /** As on the system clock, if a test sets it. */
  afterPoll?: (done: () => void) => void
  #now = 1_000

  now(): number {
    return this.#now
  }

  random(): number {
    return 0.5
  }

  timer(delayMs: number, fire: () => void): Timer {
    const entry = { at: this.#now + delayMs, fire }
    this.timers.add(entry)
    return { cancel: () => void this.timers.delete(entry), keepAlive: () => undefined }
  }

  move(ms: number): void {
    this.#now += ms
    for (const entry of [...this.timers].sort((a, b) => a.at - b.at))
      if (entry.at <= this.#now && this.timers.delete(entry)) entry.fire()
  }
}
