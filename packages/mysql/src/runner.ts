import type { Clock } from '@locks/core'
import { setTimeout as pause } from 'node:timers/promises'
import { isTransient, toLockError } from './errors.ts'
import { Line, read } from './line.ts'
import type { Result } from './line.ts'
import { Lines } from './lines.ts'
import type { Settings } from './options.ts'
import { promised } from './pool.ts'

/** A statement that the server undid is run again at most this often. */
const TRIES = 20

export type Values = readonly (string | number | Buffer | null)[]
type Run = (text: string, values?: Values) => Promise<Result>

/** Runs single, committed statements, each on whatever connection is free. */
export interface Runner {
  readonly run: Run
  close(): Promise<void>
}

/** Too long or wrong values are to be refused, not cut to fit. */
export const strict = "SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES'), autocommit = 1"
/** Locking what is not there must not lock the gap around it, against all others. */
export const withoutGaps = 'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED'

export function runnerFor({ pool, config, poolSize }: Settings, clock: Clock): Runner {
  if (pool !== undefined) {
    const shared = promised(pool)
    const run: Run = async (text, values = []) => {
      const [result] = await (values.length === 0 ? shared.query(text) : shared.execute(text, [...values]))
      return read(result)
    }
    return { run: retried(run), close: () => Promise.resolve() }
  }
  const open = (): Promise<Line> => Line.open(config, strict, withoutGaps)
  const lines = new Lines({ open, max: poolSize, clock })
  const run: Run = async (text, values) => {
    const line = await lines.take()
    line.busySince = clock.now()
    try {
      return await line.query(text, values)
    } finally {
      lines.give(line)
    }
  }
  return { run: retried(run), close: () => lines.close() }
}

/** Deadlocks and the like are no outcome: the statement left nothing behind, and may well pass the next time. */
function retried(run: Run): Run {
  return async (text, values) => {
    for (let tries = 1; ; tries += 1)
      try {
        return await run(text, values)
      } catch (error) {
        if (tries >= TRIES || !isTransient(error)) throw toLockError(error)
        await pause(Math.random() * tries)
      }
  }
}
