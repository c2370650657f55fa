import type { StrategyRecord } from '@locks/sql'
import type { Place } from './options.ts'
import type { Runner } from './runner.ts'
import { namesOf, strategyStatements } from './sql.ts'

/** Its one row names the strategy that all locks of the place belong to. Empty before the first use. */
export function strategySchema(place: Place): string {
  const { strategy } = namesOf(place)
  return `CREATE TABLE IF NOT EXISTS ${strategy} (id int PRIMARY KEY CHECK (id = 1), strategy text NOT NULL)`
}

export function strategyRecord(place: Place, runner: Runner): StrategyRecord {
  const sql = strategyStatements(place)
  const { locks, strategy: table } = namesOf(place)
  return {
    locks,
    table,
    async read() {
      return (await runner.find(sql.read, []))?.[0] ?? undefined
    },
    write: (strategy) => runner.run(sql.write, [strategy]),
  }
}
