import type { Clock } from '@locks/core'
import type { Pool } from 'pg'
import { isTransient, toLockError } from './errors.ts'
import { Line, send } from './line.ts'
import type { Row, Statement } from './line.ts'
import { Lines } from './lines.ts'
import type { Settings } from './options.ts'

/** A statement that the server undid is run again at most this often. */
const TRIES = 10

/** Runs single, committed statements, each on whatever connection is free. */
export interface Runner {
  run(statement: Statement, values: unknown[]): Promise<readonly Row[]>
  close(): Promise<void>
}

export function runnerFor({ pool, config, listen, poolSize }: Settings, clock: Clock): Runner {
  if (pool !== undefined)
    return { run: retried((...call) => runInPool(pool, listen, ...call)), close: () => Promise.resolve() }
  const open = (): Promise<Line> => Line.open(config, { named: listen })
  const lines = new Lines({ open, max: poolSize, clock })
  return { run: retried((...call) => runOnLine(lines, clock, ...call)), close: () => lines.close() }
}

type Run = (statement: Statement, values: unknown[]) => Promise<readonly Row[]>

/** Deadlocks and the like are no outcome: the statement left nothing behind, and may well pass the next time. */
function retried(run: Run): Run {
  return async (statement, values) => {
    for (let tries = 1; ; tries += 1)
      try {
        return await run(statement, values)
      } catch (error) {
        if (tries >= TRIES || !isTransient(error)) throw toLockError(error)
      }
  }
}

async function runOnLine(
  lines: Lines,
  clock: Clock,
  statement: Statement,
  values: unknown[],
): Promise<readonly Row[]> {
  const line = await lines.take()
  line.busySince = clock.now()
  try {
    return await line.query(statement, values)
  } finally {
    lines.give(line)
  }
}

/** The pool is the program's: a connection is had for one statement and given back, its settings left alone. */
async function runInPool(
  pool: Pool,
  named: boolean,
  statement: Statement,
  values: unknown[],
): Promise<readonly Row[]> {
  const client = await pool.connect()
  // The statement under way is told of the same error.
  const told = (): void => undefined
  client.on('error', told)
  try {
    return await send(client, statement, values, named)
  } finally {
    client.off('error', told)
    client.release()
  }
}
