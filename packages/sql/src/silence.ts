import type { Clock } from '@locks/core'
import type { Faults } from './faults.ts'

/** A short statement that takes longer has lost its server: the connection is given up. */
export const SILENCE_MS = 5_000

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
    const timer = clock.timer(SILENCE_MS, () => {
      giveUp()
      reject(unavailable('the server does not answer'))
    })
    sent.finally(() => timer.cancel()).then(resolve, reject)
  })
}
