import { wholeNumber } from '@locks/sql'
import { Client } from 'pg'
import { errors } from './errors.ts'
import { ours } from './connection.ts'
import { resourcesSchema } from './guard.ts'
import type { ConnectionOptions, PlaceOptions } from './option-table.ts'
import { placeOf, settle } from './options.ts'
import type { Place } from './options.ts'
import { rowSchema } from './row-schema.ts'
import { uniqueKeySchema } from './schema.ts'
import { namesOf } from './sql.ts'
import { strategySchema } from './strategy.ts'

/** Few enough that a batch holds its row locks only briefly. */
const BATCH = 1_000
const LOCK_WAIT_MS = 1_000

export type MigrateOptions = ConnectionOptions & PlaceOptions

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
  const { place } = settle({ ...options })
  await onOneConnection(options, (client) =>
    inTransaction(client, async () => {
      // IF NOT EXISTS does not keep two transactions from creating the same thing.
      await client.query("SELECT pg_advisory_xact_lock(hashtextextended('@locks/postgres migrate', 0))")
      for (const text of statements(place)) await client.query(text)
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
  const to = namesOf(settle({ ...options }).place)
  return onOneConnection(options, async (client) => {
    const count = (call: string): Promise<number> =>
      inTransaction(client, async () => {
        // Other sessions would wait behind this one, so it does not wait long for a lock itself.
        await client.query(`SET LOCAL lock_timeout = ${LOCK_WAIT_MS}`)
        const { rows } = await client.query<{ pruned: unknown }>(`SELECT ${call} AS pruned`)
        return Number(rows[0]?.pruned)
      })
    // Fails on a standby, with an error that says so.
    await client.query('SELECT pg_current_wal_lsn()')
    await count(`${to.pruneWaiters}()`)
    let pruned = 0
    for (const some of [to.prune, to.pruneRows])
      for (let last = BATCH; last === BATCH; pruned += last)
        last = await count(`${some}(${olderThanMs}, ${BATCH})`)
    return pruned
  })
}

async function onOneConnection<T>(options: MigrateOptions, work: (client: Client) => Promise<T>): Promise<T> {
  const { config } = settle({ ...options })
  const client = new Client({ ...config, ...ours })
  client.on('error', () => undefined)
  try {
    await client.connect()
    return await work(client)
  } catch (error) {
    throw errors.toLockError(error)
  } finally {
    await client.end()
  }
}

/** Read committed: under other levels a transaction fails when another session changes the same rows. */
async function inTransaction<T>(client: Client, work: () => Promise<T>): Promise<T> {
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED')
  const result = await work()
  await client.query('COMMIT')
  return result
}
