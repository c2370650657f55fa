import { invalid, toLockError } from './errors.ts'
import { Line } from './line.ts'
import { placeOf, settle } from './options.ts'
import type { ConnectionOptions, PlaceOptions } from './options.ts'
import { strict } from './runner.ts'
import { namesOf, schemaOf } from './sql.ts'

export type MigrateOptions = ConnectionOptions & PlaceOptions

/** What `migrate` runs, for a migration tool. It may be run again, and over what an earlier version made. */
export function migrationSql(options: PlaceOptions = {}): string {
  return `${schemaOf(placeOf(options)).join(';\n\n')};\n`
}

/** Makes the tables. Any number of processes may do so at the same time. */
export async function migrate(options: MigrateOptions): Promise<void> {
  const { place } = settle({ ...options })
  await onOneConnection(options, async (line) => {
    // IF NOT EXISTS does not keep two sessions from making the same thing.
    await line.query("SELECT GET_LOCK('@locks/mysql migrate', 60)")
    for (const text of schemaOf(place)) await line.query(text)
  })
}

/**
 * Deletes what is kept of locks that were last granted longer than `olderThanMs` ago and are free.
 * A lock that comes back later gets a higher fence than any that was pruned. Answers how many were deleted.
 */
export async function prune(options: MigrateOptions, olderThanMs: number): Promise<number> {
  if (!Number.isSafeInteger(olderThanMs) || olderThanMs < 0)
    throw invalid('olderThanMs must be a whole number of milliseconds')
  const to = namesOf(settle({ ...options }).place)
  const old = (column: string): string =>
    `${column} < UTC_TIMESTAMP(6) - INTERVAL ${olderThanMs} * 1000 MICROSECOND`
  const free = `name <> '' AND ${old('since')} AND (attempt IS NULL OR ${old('blocked_until')})`
  const dead = `name <> '' AND ${old('since')} AND IS_USED_LOCK(hold) IS NULL`
  return onOneConnection(options, async (line) => {
    let pruned = 0
    for (const [table, condition] of [
      [to.locks, free],
      [to.holders, dead],
      [to.named, dead],
    ] as const) {
      await line.query('START TRANSACTION')
      // Whoever makes a row anew reads this one under a lock, and waits until it is known what was pruned.
      await line.query(`SELECT fence FROM ${table} WHERE name = '' FOR UPDATE`)
      const { rows } = await line.query(`SELECT MAX(fence) FROM ${table} WHERE ${condition} FOR UPDATE`)
      await line.query(`UPDATE ${table} SET fence = GREATEST(fence, ?) WHERE name = ''`, [
        rows[0]?.[0] ?? '0',
      ])
      pruned += (
        await line.query(`DELETE FROM ${table} WHERE ${condition} AND fence <= ?`, [rows[0]?.[0] ?? '0'])
      ).affected
      await line.query('COMMIT')
    }
    return pruned
  })
}

async function onOneConnection<T>(options: MigrateOptions, work: (line: Line) => Promise<T>): Promise<T> {
  const { config, place } = settle({ ...options })
  // The database may be what is to be made.
  const { database, ...elsewhere } = config
  try {
    const line = await Line.open(
      place.schema === undefined ? { ...elsewhere, ...(database && { database }) } : elsewhere,
      strict,
    )
    try {
      return await work(line)
    } finally {
      await line.close()
    }
  } catch (error) {
    throw toLockError(error)
  }
}
