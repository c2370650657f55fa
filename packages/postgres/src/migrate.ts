import { onOneConnection, wholeNumber } from '@locks/sql'
import { errors } from './errors.ts'
import { PostgresConnection } from './connection.ts'
import { resourcesSchema } from './guard.ts'
import type { ConnectionOptions, PlaceOptions, SharedOptions } from './option-table.ts'
import { placeOf, settle } from './options.ts'
import type { Place, Settings } from './options.ts'
import { rowSchema } from './row-schema.ts'
import { uniqueKeySchema } from './schema.ts'
import { namesOf, plain } from './sql.ts'
import { strategySchema } from './strategy.ts'

/** Few enough that a batch holds its row locks only briefly. */
const BATCH = 1_000
const LOCK_WAIT_MS = 1_000

export type MigrateOptions = ConnectionOptions & PlaceOptions & Pick<SharedOptions, 'library'>

/** The SQL of `migrate`, for a migration tool. It can be run again, also over the tables of an earlier version. */
export function migrationSql(options: PlaceOptions = {}): string {
  return `${statements(placeOf(options)).join(';\n\n')};\n`
}

function statements(place: Place): readonly string[] {
  return [
    // IF NOT EXISTS alone asks for the right to create schemas first, which the owner of one may not have.
    `DO $locks$ BEGIN
  IF to_regnamespace('"${place.schema}"') IS NULL THEN
    CREATE SCHEMA IF NOT EXISTS "${place.schema}";
  END IF;
END $locks$`,
    ...uniqueKeySchema(place),
    ...rowSchema(place),
    strategySchema(place),
    ...resourcesSchema(place),
  ]
}

/** Creates the tables and functions. Any number of processes may do so at the same time. */
export async function migrate(options: MigrateOptions): Promise<void> {
  const settings = settle(options)
  // IF NOT EXISTS does not keep two transactions from creating the same thing.
  const alone = "SELECT pg_advisory_xact_lock(hashtextextended('@locks/postgres migrate', 0))"
  await onOneConnection(opening(settings), errors, (connection) =>
    inTransaction(connection, async () => {
      for (const text of [alone, ...statements(settings)]) await connection.query(plain(text))
    }),
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

/** Read committed: under other levels a transaction fails when another session changes the same rows. */
async function inTransaction<T>(connection: PostgresConnection, work: () => Promise<T>): Promise<T> {
  await connection.query(plain('BEGIN ISOLATION LEVEL READ COMMITTED'))
  const result = await work()
  await connection.query(plain('COMMIT'))
  return result
}
