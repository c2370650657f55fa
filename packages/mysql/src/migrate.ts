import { systemClock } from '@locks/core/adapter'
import { retried, wholeNumber } from '@locks/sql'
import { newEcho } from './echo.ts'
import { faults, isTransient } from './errors.ts'
import { Line } from './line.ts'
import type { Result, Values } from './line.ts'
import type { ConnectionOptions, PlaceOptions } from './option-table.ts'
import { placeOf, settle } from './options.ts'
import { pruneCounters, pruneRows } from './prune.ts'
import { LOCK_WAIT_S, setUp } from './runner.ts'
import type { Runner } from './runner.ts'
import { schemaOf } from './schema.ts'

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
  const { place } = settle({ ...options })
  return onOneConnection(options, async (line) => {
    const query = (text: string, values?: Values): Promise<Result> => line.query(text, values)
    const run = retried(query, isTransient, faults, systemClock)
    const look = async (text: string, values: Values = []): ReturnType<Runner['look']> =>
      (await run(text, [newEcho(), ...values])).rows.map(([, ...row]) => row)
    let pruned = 0
    for (const strategy of ['unique-key', 'row', 'named'] as const)
      for (let more = true; more;) {
        const step = await pruneCounters({ look, run }, place, strategy, olderThanMs)
        pruned += step.pruned
        more = step.more
      }
    while (await pruneRows(query, place, systemClock));
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
