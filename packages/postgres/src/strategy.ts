import type { StrategyRecord } from '@locks/sql'
import { createHash } from 'node:crypto'
import type { Statement } from './connection.ts'
import type { Place, Settings } from './options.ts'
import type { Runner } from './runner.ts'
import { durable, namesOf, statement } from './sql.ts'

type Owned = Place & Pick<Settings, 'strategy'>

/** Its one row names the strategy that all locks of the place belong to. Empty before the first use. */
export function strategySchema(place: Place): string {
  const { strategy } = namesOf(place)
  return `CREATE TABLE IF NOT EXISTS ${strategy} (id int PRIMARY KEY CHECK (id = 1), strategy text NOT NULL)`
}

/**
 * The advisory lock that says who uses the place without a record: each connection of a client without fences shares
 * it, and a client that records another strategy has it alone until the record is committed.
 */
export function placeKeyOf({ schema, table }: Place): string {
  const digest = createHash('sha256').update(`@locks/postgres place\0${schema}.${table}`).digest()
  return `CAST('${digest.readBigInt64BE()}' AS bigint)`
}

/** The recorded strategy. Without a record `advisory`, if a client without fences uses the place. */
export function readStrategy({ strategy, ...place }: Owned): Statement {
  const recorded = `(SELECT strategy FROM ${namesOf(place).strategy})`
  // A client with fences records the strategy, also beside clients without.
  if (strategy === 'advisory') return statement(`SELECT $1::text, ${recorded}`)
  return statement(`SELECT $1::text, coalesce(${recorded}, (SELECT 'advisory' FROM pg_locks
  WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND mode = 'ShareLock'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint << 32) | objid::bigint = ${placeKeyOf(place)} LIMIT 1))`)
}

function writeStrategy({ strategy, ...place }: Owned): Statement {
  const isFree = strategy === 'advisory' ? 'true' : `pg_try_advisory_xact_lock(${placeKeyOf(place)})`
  return statement(
    `INSERT INTO ${namesOf(place).strategy} (id, strategy) SELECT 1, $1::text WHERE ${isFree}
ON CONFLICT DO NOTHING RETURNING ${durable}`,
  )
}

export function strategyRecord(place: Owned, runner: Runner): StrategyRecord {
  const { locks, strategy: table } = namesOf(place)
  const read = readStrategy(place)
  const write = writeStrategy(place)
  return {
    locks,
    table,
    async read() {
      return (await runner.find(read, []))?.[0] ?? undefined
    },
    write: (strategy) => runner.run(write, [strategy]),
  }
}
