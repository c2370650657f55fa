import type { StrategyRecord } from '@locks/sql'
import { lockOf } from './advisory-sql.ts'
import type { Statement } from './connection.ts'
import { lookForForeign } from './foreign.ts'
import { isShared, transactionsKeyOf, unfencedKeyOf } from './name-key.ts'
import type { Place, Settings } from './options.ts'
import type { Runner } from './runner.ts'
import { durable, namesOf, statement } from './sql.ts'

type Owned = Place & Pick<Settings, 'strategy'>

/** Its one row names the strategy that all locks of the place belong to. Empty before the first use. */
export function strategySchema(place: Place): string {
  const { strategy } = namesOf(place)
  return `CREATE TABLE IF NOT EXISTS ${strategy} (id int PRIMARY KEY CHECK (id = 1), strategy text NOT NULL)`
}

/** The recorded strategy. Without a record `advisory`, if a client without fences uses the place. */
export function strategyOf(place: Place): string {
  return `coalesce((SELECT strategy FROM ${namesOf(place).strategy} WHERE id = 1),
  CASE WHEN ${isShared(unfencedKeyOf(place))} THEN 'advisory' END)`
}

export function readStrategy({ strategy, ...place }: Owned): Statement {
  // A client with fences records the strategy, also beside clients without.
  const recorded = `(SELECT strategy FROM ${namesOf(place).strategy})`
  return statement(`SELECT $1::text, ${strategy === 'advisory' ? recorded : strategyOf(place)}`)
}

/** Not while the place is used in a way that does not go with the strategy. */
function writeStrategy({ strategy, ...place }: Owned): Statement {
  const alone = [
    ...(strategy === 'row' ? [] : [transactionsKeyOf(place)]),
    ...(strategy === 'advisory' ? [] : [unfencedKeyOf(place)]),
  ].map((key) => `pg_try_advisory_xact_lock(${key})`)
  // One client after the other, so that none meets only the lock of another.
  return statement(
    `INSERT INTO ${namesOf(place).strategy} (id, strategy) SELECT 1, $1::text
WHERE CASE WHEN pg_advisory_xact_lock(${lockOf(place, '')}) IS NOT NULL THEN ${alone.join(' AND ')} END
ON CONFLICT DO NOTHING RETURNING ${durable}`,
  )
}

export function strategyRecord(place: Owned, runner: Runner): StrategyRecord {
  const { locks, strategy: table } = namesOf(place)
  const read = readStrategy(place)
  const write = writeStrategy(place)
  const foreign = lookForForeign(place)
  return {
    locks,
    table,
    async read() {
      return (await runner.find(read, []))?.[0] ?? undefined
    },
    async foreign() {
      return (await runner.ask(foreign, []))[0][0] ?? undefined
    },
    write: (strategy) => runner.run(write, [strategy]),
  }
}
