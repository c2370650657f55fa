import { onOneConnection, wholeNumber } from '@locks/sql'
import { errors } from './errors.ts'
import { PostgresConnection } from './connection.ts'
import type { ConnectionOptions, TableOptions, SharedOptions } from './option-table.ts'
import { tablesOf, settle } from './options.ts'
import type { Settings } from './options.ts'
import { assertOurs } from './foreign.ts'
import { namesOf, plain } from './sql.ts'
import { createTables, inTransaction, migrating, sqlOf } from './tables.ts'

/** Few enough that a batch holds its row locks only briefly. */
const BATCH = 1_000
const LOCK_WAIT_MS = 1_000

export type MigrateOptions = ConnectionOptions & TableOptions & Pick<SharedOptions, 'library'>

/** The SQL of `migrate`, for a migration tool. It can be run again, also over the tables of an earlier version. */
export function migrationSql(options: TableOptions = {}): string {
  return sqlOf(tablesOf(options))
}

/** Creates the tables and functions. Any number of processes may do so at the same time. */
export async function migrate(options: MigrateOptions): Promise<void> {
  const settings = settle(options)
  await onOneConnection(opening(settings), errors, (connection) =>
    migrating(connection, 0, () => createTables(settings, connection)),
  )
}

/**
 * Deletes the rows of free locks that were last granted more than `olderThanMs` ago. A pruned lock that is used again
 * gets a higher fence than any that was pruned. Rows in use are skipped, and locks of `unique-key` can be acquired,
 * renewed and released meanwhile. Returns how many were deleted.
 */
export async function prune(options: MigrateOptions, olderThanMs: number): Promise<number> {
  wholeNumber(errors, 'olderThanMs', olderThanMs, [0, Number.MAX_SAFE_INTEGER])
  const settings = settle(options)
  const to = namesOf(settings)
  return onOneConnection(opening(settings), errors, async (connection) => {
    const count = (call: string): Promise<number> =>
      inTransaction(connection, async () => {
        // Other sessions would wait behind this one, so it does not wait long for a lock itself.
        await connection.query(plain(`SET LOCAL lock_timeout = ${LOCK_WAIT_MS}`))
        const [[pruned] = []] = await connection.query(plain(`SELECT ${call}`))
        return Number(pruned)
      })
    // Fails on a standby, with an error that says so.
    await connection.query(plain('SELECT pg_current_wal_lsn()'))
    await assertOurs(settings, connection)
    await count(`${to.pruneWaiters}()`)
    let pruned = 0
    for (const some of [to.prune, to.pruneRows])
      for (let last = BATCH; last === BATCH; pruned += last)
        last = await count(`${some}(${olderThanMs}, ${BATCH})`)
    return pruned
  })
}

function opening({ config }: Settings): () => Promise<PostgresConnection> {
  return () => PostgresConnection.open(config)
}
