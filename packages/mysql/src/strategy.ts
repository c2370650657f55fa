import type { StrategyRecord } from '@locks/sql'
import type { Place } from './options.ts'
import type { Runner } from './runner.ts'
import { namesOf } from './schema.ts'

export function strategyRecord(place: Place, runner: Pick<Runner, 'look' | 'run'>): StrategyRecord {
  const { locks, strategy: table } = namesOf(place)
  return {
    locks,
    table,
    async read() {
      return (await runner.look(`SELECT ?, strategy FROM ${table} WHERE id = 1`))[0]?.[0]
    },
    write: (strategy) =>
      runner.run(`INSERT INTO ${table} (id, strategy) VALUES (1, ?) ON DUPLICATE KEY UPDATE id = id`, [
        strategy,
      ]),
  }
}
