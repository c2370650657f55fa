import type { StrategyRecord } from '@locks/sql'
import { errors, rowLocked } from './errors.ts'
import { foreignIn } from './foreign.ts'
import type { Tables } from './options.ts'
import type { Runner } from './runner.ts'
import { hasOurKey, namesOf } from './schema.ts'
import { once } from './sql.ts'

export function strategyRecord(tables: Tables, runner: Pick<Runner, 'look' | 'run'>): StrategyRecord {
  const { locks, strategy: table, pruned } = namesOf(tables)
  const insert = (id: string, from: string): string =>
    `INSERT INTO ${table} (id, strategy) SELECT ${id}, ? FROM ${once} ${from} ON DUPLICATE KEY UPDATE id = ${table}.id`
  const writeRow = insert('1', '')
  // Refused while a transaction holds a name here. `p.id` is read so that the row is locked; the inserted id is 1.
  const writeOther = insert('COALESCE(p.id - 1, 1)', `LEFT JOIN ${pruned} p ON p.id = 2 FOR UPDATE NOWAIT`)
  // A row of a table of another program says nothing. What table it is shows when nothing is recorded.
  const recorded = `SELECT ?, strategy FROM ${table} WHERE id = 1 AND ${hasOurKey(tables, 'strategy')}`
  return {
    locks,
    table,
    async read() {
      return (await runner.look(recorded))[0]?.[0]
    },
    foreign: () => foreignIn(tables, (...call) => runner.look(...call)),
    async write(strategy) {
      await runner.run(strategy === 'row' ? writeRow : writeOther, [strategy]).catch((error: unknown) => {
        // Nothing is recorded then, which the next look reports.
        if (!errors.has(error, rowLocked)) throw error
      })
    },
  }
}
