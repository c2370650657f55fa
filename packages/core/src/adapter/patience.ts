import type { Clock, Timer } from './clock.ts'

/**
 * A timer that runs this late shows that the process was paused. Timers run before sockets are read, so an answer may
 * have arrived meanwhile and gets a little time to be read.
 */
export const PAUSE_MS = 1_000

/** How long an answer has to be read after a pause, where the other side has `timeoutMs` to answer. */
export function graceMs(timeoutMs: number): number {
  return Math.min(PAUSE_MS, timeoutMs)
}

/** Whether a timer that was due at `dueAt` and runs `now` shows that this process was paused. */
export function wasPaused(dueAt: number, now: number, pauseMs: number = PAUSE_MS): boolean {
  return now - dueAt >= pauseMs
}

/** Forgives a time-out that a pause of this process caused. Not twice in a row, so that a slow process still ends. */
export class Patience {
  #forgave = false

  /** Whether to go on for a while, although what was due at `dueAt` has not come by `now`. */
  forgives(dueAt: number, now: number): boolean {
    this.#forgave = !this.#forgave && wasPaused(dueAt, now)
    return this.#forgave
  }
}

/** Calls `giveUp` after `timeoutMs`, and a grace period if this process was paused. Can be cancelled. */
export function onSilence(clock: Clock, timeoutMs: number, giveUp: () => void): Pick<Timer, 'cancel'> {
  const dueAt = clock.now() + timeoutMs
  let timer = clock.timer(timeoutMs, () => {
    if (wasPaused(dueAt, clock.now())) timer = clock.timer(graceMs(timeoutMs), giveUp)
    else giveUp()
  })
  return { cancel: () => timer.cancel() }
}
