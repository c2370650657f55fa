import type { StrategyRecord } from '@locks/sql'
import { lockOf } from './advisory-sql.ts'
import type { Statement } from './connection.ts'
import { placeKeyOf } from './name-key.ts'
import type { Place } from './options.ts'
import type { Runner } from './runner.ts'
import { durable, namesOf, statement } from './sql.ts'

/** Its one row names the strategy that all locks of the place belong to. Empty before the first use. */
export function strategySchema(place: Place): string {
  const { strategy } = namesOf(place)
  return `CREATE TABLE IF NOT EXISTS ${strategy} (id int PRIMARY KEY CHECK (id = 1), strategy text NOT NULL)`
}

export function readStrategy(place: Place): Statement {
  return statement(`SELECT $1::text, strategy FROM ${namesOf(place).strategy}`)
}

export function strategyRecord(place: Place, runner: Runner): StrategyRecord {
  const { locks, strategy: table } = namesOf(place)
  const read = readStrategy(place)
  const insert = (when: string): Statement =>
    statement(
      `INSERT INTO ${table} (id, strategy) SELECT 1, $1 WHERE ${when} ON CONFLICT DO NOTHING RETURNING ${durable}`,
    )
  const writeRow = insert('true')
  // Not while a transaction holds a name here. One client after the other, so that none meets only the lock of another.
  const writeOther = insert(
    `CASE WHEN pg_advisory_xact_lock(${lockOf(place, '')}) IS NOT NULL
  THEN pg_try_advisory_xact_lock(${placeKeyOf(place)}) END`,
  )
  return {
    locks,
    table,
    async read() {
      return (await runner.find(read, []))?.[0] ?? undefined
    },
    write: (strategy) => runner.run(strategy === 'row' ? writeRow : writeOther, [strategy]),
  }
}
