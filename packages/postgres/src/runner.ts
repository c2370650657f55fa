import type { Clock } from '@locks/core'
import { Lines, onAnyLine, retried, unlessSilent } from '@locks/sql'
import type { Pool } from 'pg'
import { faults, isOfFailedTransaction, isRefusal, isTransient } from './errors.ts'
import { Line, send } from './line.ts'
import type { Row, Statement } from './line.ts'
import type { Settings } from './options.ts'

/** Runs single, committed statements, each on whatever connection is free. */
export interface Runner {
  run(statement: Statement, values: unknown[]): Promise<readonly Row[]>
  /** Has a connection ready, as far as that is its business. */
  warm(): Promise<void>
  close(): Promise<void>
}

export function runnerFor({ pool, config, listen, poolSize }: Settings, clock: Clock): Runner {
  if (pool !== undefined) {
    const run: Runner['run'] = (...call) => runInPool(pool, listen, clock, ...call)
    const nothing = (): Promise<void> => Promise.resolve()
    return { run: retried(run, isTransient, faults, clock), warm: nothing, close: nothing }
  }
  const open = (closing: AbortSignal): Promise<Line> => Line.open(config, { named: listen, closing })
  const lines = new Lines({ open, max: poolSize, clock, faults })
  const run: Runner['run'] = (...call) => onAnyLine(lines, clock, (line) => line.query(...call))
  return {
    run: retried(run, isTransient, faults, clock),
    warm: async () => lines.give(await lines.take()),
    close: () => lines.close(),
  }
}

/** The pool is the program's: a connection is had for one statement and given back, its settings left alone. */
async function runInPool(
  pool: Pool,
  named: boolean,
  clock: Clock,
  statement: Statement,
  values: unknown[],
): Promise<readonly Row[]> {
  const client = await pool.connect()
  const { connection }: Partial<typeof client> = client
  if (connection === undefined) {
    client.release()
    throw faults.invalid('pool must be of pg itself: pg-native does not give values as text')
  }
  // The statement under way is told of the same error.
  const told = (): void => undefined
  let committed = true
  let useless = false
  const ready = (message: { readonly status?: unknown }): void => void (committed = message.status === 'I')
  client.on('error', told)
  connection.on('readyForQuery', ready)
  try {
    const rows = await unlessSilent(send(client, statement, values, named), clock, faults, () => undefined)
    if (committed) return rows
  } catch (error) {
    useless = !isRefusal(error)
    // The server tells what became of the transaction after the error, and pg does not wait for that.
    if (isOfFailedTransaction(error)) committed = false
    if (committed) throw error
  } finally {
    connection.off('readyForQuery', ready)
    client.off('error', told)
    // Ended with its connection, a transaction is rolled back.
    client.release(useless || !committed)
  }
  // A lock that is not committed is none, and keeps everybody waiting.
  throw faults.invalid('a transaction was left open in your pool')
}
