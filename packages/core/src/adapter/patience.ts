import type { Clock, Timer } from './clock.ts'

/**
 * A timer that runs later than this shows a pause of the process. Timers run before sockets are read, so the answer may
 * have come meanwhile: it gets a little time to be found.
 */
export const PAUSE_MS = 1_000

/** How long an answer gets to be found after a pause, where the other side has `timeoutMs` to answer. */
export function graceMs(timeoutMs: number): number {
  return Math.min(PAUSE_MS, timeoutMs)
}

/** Whether a timer that was due at `dueAt` and runs `now` shows a pause of this process. */
export function wasPaused(dueAt: number, now: number, pauseMs: number = PAUSE_MS): boolean {
  return now - dueAt >= pauseMs
}

/** Forgives a time-out that a pause of this process caused: once, so that a process that always lags still ends. */
export class Patience {
  #forgave = false

  /** Whether to go on for a while, although what was due at `dueAt` is not there `now`. */
  forgives(dueAt: number, now: number): boolean {
    this.#forgave = !this.#forgave && wasPaused(dueAt, now)
    return this.#forgave
  }
}

/** Calls `giveUp` after `timeoutMs` in which this process was not paused, or after a grace, unless cancelled before. */
export function onSilence(clock: Clock, timeoutMs: number, giveUp: () => void): Pick<Timer, 'cancel'> {
  const dueAt = clock.now() + timeoutMs
  let timer = clock.timer(timeoutMs, () => {
    if (wasPaused(dueAt, clock.now())) timer = clock.timer(graceMs(timeoutMs), giveUp)
    else giveUp()
  })
  return { cancel: () => timer.cancel() }
}
