import type { Clock, Timer } from '@locks/core/adapter'
import type { Faults } from './faults.ts'

/** A short statement that takes longer has lost its server: the connection is given up. */
export const SILENCE_MS = 5_000

/**
 * A time-out that comes this late tells of a pause of the process itself. Timers run before sockets are read, so the
 * answer may have come: there is as much time again to find it, once.
 */
export const PAUSE_MS = 1_000

/** Calls `giveUp` after a silence that was the server's, unless cancelled before. */
export function onSilence(clock: Clock, giveUp: () => void): Pick<Timer, 'cancel'> {
  const dueAt = clock.now() + SILENCE_MS
  let timer = clock.timer(SILENCE_MS, () => {
    if (clock.now() - dueAt < PAUSE_MS) giveUp()
    else timer = clock.timer(PAUSE_MS, giveUp)
  })
  return { cancel: () => timer.cancel() }
}

/**
 * For a statement on a connection of the program's own pool. `giveUp` has to end the connection: it may be of no more
 * use, and the statement may get no answer even then, so that it has one here.
 */
export function unlessSilent<T>(
  sent: Promise<T>,
  clock: Clock,
  { unavailable }: Faults,
  giveUp: () => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = onSilence(clock, () => {
      giveUp()
      reject(unavailable('the server does not answer'))
    })
    sent.finally(() => timer.cancel()).then(resolve, reject)
  })
}
