import type { Clock } from '@locks/core/adapter'

export function pause(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.timer(ms, resolve))
}

const LOOK_MS = 10

/** Whether `isOver` turns true within `maxMs`. */
export async function becomesTrue(
  clock: Clock,
  maxMs: number,
  isOver: () => Promise<boolean>,
): Promise<boolean> {
  const until = clock.now() + maxMs
  while (!(await isOver())) {
    if (clock.now() >= until) return false
    await pause(clock, LOOK_MS)
  }
  return true
}
