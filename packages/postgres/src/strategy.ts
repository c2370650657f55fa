import type { StrategyRecord } from '@locks/sql'
import type { Statement } from './connection.ts'
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
  const write = statement(
    `INSERT INTO ${table} (id, strategy) VALUES (1, $1) ON CONFLICT DO NOTHING RETURNING ${durable}`,
  )
  return {
    locks,
    table,
    async read() {
      return (await runner.find(read, []))?.[0] ?? undefined
    },
    write: (strategy) => runner.run(write, [strategy]),
  }
}
