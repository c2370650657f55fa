import { systemClock } from '@locks/core/adapter'
import { onOneConnection, retried, wholeNumber } from '@locks/sql'
import { newEcho } from './echo.ts'
import { errors } from './errors.ts'
import { assertOurs } from './foreign.ts'
import type { Result, Values } from './connection.ts'
import type { ConnectionOptions, TableOptions } from './option-table.ts'
import { tablesOf, settle } from './options.ts'
import { pruneCounters, pruneRows } from './prune.ts'
import type { Runner } from './runner.ts'
import { createTables, migrating, opening, sqlOf } from './tables.ts'

const PATIENCE_S = 60

export type MigrateOptions = ConnectionOptions & TableOptions

/** The SQL of `migrate`, for a migration tool. It can be run again, also over the tables of an earlier version. */
export function migrationSql(options: TableOptions = {}): string {
  return sqlOf(tablesOf(options))
}

/** Creates the tables. Any number of processes may do so at the same time. */
export async function migrate(options: MigrateOptions): Promise<void> {
  const settings = settle(options)
  await onOneConnection(opening(settings), errors, (connection) =>
    migrating(connection, PATIENCE_S, () => createTables(settings, connection)),
  )
}

/**
 * Deletes the rows of free locks that were last granted more than `olderThanMs` ago. A pruned lock that is used again
 * gets a higher fence than any that was pruned. Can run at any time. Returns how many were deleted.
 */
export async function prune(options: MigrateOptions, olderThanMs: number): Promise<number> {
  wholeNumber(errors, 'olderThanMs', olderThanMs, [0, Number.MAX_SAFE_INTEGER])
  const settings = settle(options)
  return onOneConnection(opening(settings), errors, async (connection) => {
    const query = (text: string, values?: Values): Promise<Result> => connection.query(text, values)
    const run = retried(query, errors, systemClock)
    const look = async (text: string, values: Values = []): ReturnType<Runner['look']> =>
      (await run(text, [newEcho(), ...values])).rows.map(([, ...row]) => row)
    await assertOurs(settings, connection)
    let pruned = 0
    for (const strategy of ['unique-key', 'row', 'named'] as const)
      for (let more = true; more;) {
        const step = await pruneCounters({ look, run }, settings, strategy, olderThanMs)
        pruned += step.pruned
        more = step.more
      }
    while (await pruneRows(query, settings, systemClock));
    return pruned
  })
}
