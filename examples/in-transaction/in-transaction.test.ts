import { test } from 'vitest'
import { isSelected } from '../../conformance/selection.ts'
import { scaled } from '../../conformance/services/timing.ts'
import { sellWith } from './sales.ts'

test.for([
  ['pg.mjs', 'postgres-row'],
  ['mysql2.mjs', 'mysql-row'],
] as const)(
  '%s sells exactly what there is',
  { timeout: scaled(90_000) },
  async ([library, backend], { skip }) => {
    if (!isSelected(backend)) skip(`LOCKS_ONLY leaves out ${backend}`)
    await sellWith(import.meta.dirname, library, 40)
  },
)
