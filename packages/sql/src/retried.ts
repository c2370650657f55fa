import type { Clock } from '@locks/core/adapter'
import type { Faults } from './faults.ts'
import type { Line } from './line.ts'
import type { Lines } from './lines.ts'

/** A statement that the server undid is run again at most this often. */
const TRIES = 20

/**
 * Deadlocks and the like are no outcome: the statement left nothing behind, and may well pass the next time.
 * Two that met once would meet again, so each pauses for a little while of its own.
 */
export function retried<Call extends readonly unknown[], Result>(
  run: (...call: Call) => Promise<Result>,
  isTransient: (error: unknown) => boolean,
  { toLockError }: Faults,
  clock: Clock,
): (...call: Call) => Promise<Result> {
  return async (...call) => {
    for (let tries = 1; ; tries += 1)
      try {
        return await run(...call)
      } catch (error) {
        if (tries >= TRIES || !isTransient(error)) throw toLockError(error)
        await new Promise<void>((resolve) => void clock.timer(clock.random() * tries, resolve))
      }
  }
}

/** One short statement on whichever connection is free. */
export async function onAnyLine<L extends Line, Result>(
  lines: Lines<L>,
  clock: Clock,
  work: (line: L) => Promise<Result>,
): Promise<Result> {
  const line = await lines.take()
  line.busySince = clock.now()
  try {
    return await work(line)
  } finally {
    lines.give(line)
  }
}
