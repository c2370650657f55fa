import type { StrategyRecord } from '@locks/sql'
import { lockOf } from './advisory-sql.ts'
import type { Statement } from './connection.ts'
import { lookForForeign } from './foreign.ts'
import { isShared, transactionsKeyOf, unfencedKeyOf } from './name-key.ts'
import type { Tables, Settings } from './options.ts'
import type { Runner } from './runner.ts'
import { durable, namesOf, statement } from './sql.ts'

type Owned = Tables & Pick<Settings, 'strategy'>

/** Its one row names the strategy that all locks of the tables belong to. Empty before the first use. */
export function strategySchema(tables: Tables): string {
  const { strategy } = namesOf(tables)
  return `CREATE TABLE IF NOT EXISTS ${strategy} (id int PRIMARY KEY CHECK (id = 1), strategy text NOT NULL)`
}

/** The recorded strategy. Without a record `advisory`, if a client without fences uses the tables. */
export function strategyOf(tables: Tables): string {
  return `coalesce((SELECT strategy FROM ${namesOf(tables).strategy} WHERE id = 1),
  CASE WHEN ${isShared(unfencedKeyOf(tables))} THEN 'advisory' END)`
}

export function readStrategy({ strategy, ...tables }: Owned): Statement {
  const { strategy: table } = namesOf(tables)
  // A client with fences records the strategy, also beside clients without.
  const recorded = strategy === 'advisory' ? `(SELECT strategy FROM ${table})` : strategyOf(tables)
  // A row of a table of another program says nothing. What table it is shows when nothing is recorded.
  const isOurs = `EXISTS (SELECT FROM pg_index WHERE indrelid = to_regclass('${table}') AND indisprimary)`
  return statement(`SELECT $1::text, CASE WHEN ${isOurs} THEN ${recorded} END`)
}

/** Not while the tables are used in a way that does not go with the strategy. */
function writeStrategy({ strategy, ...tables }: Owned): Statement {
  const alone = [
    ...(strategy === 'row' ? [] : [transactionsKeyOf(tables)]),
    ...(strategy === 'advisory' ? [] : [unfencedKeyOf(tables)]),
  ].map((key) => `pg_try_advisory_xact_lock(${key})`)
  // One client after the other, so that none meets only the lock of another.
  return statement(
    `INSERT INTO ${namesOf(tables).strategy} (id, strategy) SELECT 1, $1::text
WHERE CASE WHEN pg_advisory_xact_lock(${lockOf(tables, '')}) IS NOT NULL THEN ${alone.join(' AND ')} END
ON CONFLICT DO NOTHING RETURNING ${durable}`,
  )
}

export function strategyRecord(tables: Owned, runner: Runner): StrategyRecord {
  const { locks, strategy: table } = namesOf(tables)
  const read = readStrategy(tables)
  const write = writeStrategy(tables)
  const foreign = lookForForeign(tables)
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
