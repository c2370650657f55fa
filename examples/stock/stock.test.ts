import { join } from 'node:path'
import { expect, test } from 'vitest'
import { isSelected } from '../../conformance/selection.ts'
import { postgresQuery, startService } from '../../conformance/services/index.ts'
import { scaled } from '../../conformance/services/timing.ts'
import { start } from '../test-support/program.ts'

const program = join(import.meta.dirname, 'main.mjs')

if (isSelected('postgres-unique-key'))
  test(
    'shops sell what there is, once; a stale fence changes nothing',
    { timeout: scaled(90_000) },
    async () => {
      await using service = await startService('postgres')
      const env = { POSTGRES_URL: service.url }
      // The first of them creates the tables.
      const shops = [await start(program, { env }).ended]
      await postgresQuery(service.server('postgres'), 'UPDATE stock SET amount = 20')
      const together = [1, 2, 3].map(() => start(program, { env }))
      for (const { ended } of together) shops.push(await ended)
      const sold = shops.map(({ output }) => Number(/sold (\d+)/.exec(output)?.[1] ?? Number.NaN))
      expect(sold[0]).toBe(20)
      expect(sold.slice(1).reduce((a, b) => a + b)).toBe(20)
      for (const { exitCode, output } of shops) {
        expect(output).toContain('a write under the old fence changes 0 rows')
        expect(exitCode).toBe(0)
      }
    },
  )
else test('shops on PostgreSQL', ({ skip }) => skip('LOCKS_ONLY leaves out postgres-unique-key'))
