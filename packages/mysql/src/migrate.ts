import { systemClock } from '@locks/core'
import { retried, wholeNumber } from '@locks/sql'
import { faults, isTransient } from './errors.ts'
import { Line } from './line.ts'
import type { Result, Values } from './line.ts'
import { placeOf, settle } from './options.ts'
import type { ConnectionOptions, PlaceOptions } from './options.ts'
import { LOCK_WAIT_S, setUp } from './runner.ts'
import { namesOf, schemaOf } from './schema.ts'
import { now } from './sql.ts'

/** Few enough that nobody waits long for the rows among them. */
const BATCH = 500
/** These go one by one, each after a round trip: a statement for all might scan the table and wait for a holder. */
const ROWS_BATCH = 50

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
    const { rows } = await line.query("SELECT GET_LOCK('@locks/mysql migrate', 60)")
    if (rows[0]?.[0] !== '1') throw faults.unavailable('another migration does not come to an end')
    for (const text of schemaOf(place)) await line.query(text)
  })
}

/**
 * Deletes what is kept of locks that were last granted longer than `olderThanMs` ago and are free. A lock that
 * comes back later gets a higher fence than any that was pruned. May run at any time. Answers how many were deleted.
 */
export async function prune(options: MigrateOptions, olderThanMs: number): Promise<number> {
  wholeNumber(faults, 'olderThanMs', olderThanMs, [0, Number.MAX_SAFE_INTEGER])
  const to = namesOf(settle({ ...options }).place)
  const old = (column: string): string => `${column} < ${now} - INTERVAL ${olderThanMs} * 1000 MICROSECOND`
  const free = `${old('since')} AND (attempt IS NULL OR ${old('blocked_until')})`
  const dead = `${old('since')} AND IS_USED_LOCK(hold) IS NULL`
  return onOneConnection(options, async (line) => {
    const query = (text: string, values?: Values): Promise<Result> => line.query(text, values)
    const run = retried(query, isTransient, faults, systemClock)
    let pruned = 0
    for (const [table, over] of [
      [to.locks, free],
      [to.holders, dead],
      [to.named, dead],
    ] as const) {
      // Known to all before the first row goes: whoever makes one anew reads this, under a lock that waits for it.
      const { rows } = await run(`SELECT MAX(fence) FROM ${table} WHERE ${over}`)
      const [highest] = rows[0] ?? []
      if (highest === undefined) continue
      await run(`UPDATE ${to.pruned} SET fence = GREATEST(fence, ?) WHERE id = 1`, [highest])
      const remove = `DELETE FROM ${table} WHERE ${over} AND fence <= ? LIMIT ${BATCH}`
      pruned += await untilNone(BATCH, async () => (await run(remove, [highest])).affected)
    }
    // What is locked has a holder; what has none and is missed is simply made again.
    const unused = `SELECT r.name FROM ${to.rows} r
      WHERE NOT EXISTS (SELECT 1 FROM ${to.holders} h WHERE h.name = r.name)`
    const removeUnused = async (): Promise<number> => {
      await query('START TRANSACTION')
      const { rows } = await query(`${unused} LIMIT ${ROWS_BATCH} FOR UPDATE SKIP LOCKED`)
      for (const [name = ''] of rows)
        await query(`DELETE FROM ${to.rows} WHERE name = ?`, [Buffer.from(name)])
      await query('COMMIT')
      return rows.length
    }
    await untilNone(ROWS_BATCH, retried(removeUnused, isTransient, faults, systemClock))
    return pruned
  })
}

async function untilNone(batch: number, some: () => Promise<number>): Promise<number> {
  let all = 0
  for (let last = batch; last === batch; all += last) last = await some()
  return all
}

async function onOneConnection<T>(options: MigrateOptions, work: (line: Line) => Promise<T>): Promise<T> {
  const { config, place } = settle({ ...options })
  // The database may be what is to be made.
  const { database, ...elsewhere } = config
  try {
    const line = await Line.open(
      place.schema === undefined ? { ...elsewhere, ...(database && { database }) } : elsewhere,
      setUp(LOCK_WAIT_S),
    )
    try {
      return await work(line)
    } finally {
      await line.close()
    }
  } catch (error) {
    throw faults.toLockError(error)
  }
}
