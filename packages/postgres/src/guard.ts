import { admitted, fencePieces, wholeNumber } from '@locks/sql'
import type { FencePieces } from '@locks/sql'
import type { Queries } from './drivers/given.ts'
import { errors } from './errors.ts'
import type { TableOptions } from './option-table.ts'
import { tablesOf } from './options.ts'
import type { Tables } from './options.ts'
import { namesOf } from './sql.ts'

/**
 * Makes an UPDATE refuse a stale holder: a row that has seen a higher fence is not updated.
 * `parameter` is the number of an unused parameter of yours, `column` a `bigint NOT NULL DEFAULT 0`.
 */
export function fenced(fence: bigint, parameter: number, column: string = 'fence'): FencePieces {
  const at = wholeNumber(errors, 'parameter', parameter, [1, 65_535])
  return fencePieces(errors, fence, column, (name) => `"${name}"`, `$${at}`)
}

/**
 * For a resource that cannot have a column for the fence: call this first in the transaction that changes it. Rejects
 * with `LOCK_LOST` when the resource has seen a higher fence. Otherwise all other holders wait here until that
 * transaction ends, and those with a lower fence are refused from then on.
 */
export async function admitFence(
  client: Queries,
  resource: string,
  fence: bigint,
  options: TableOptions = {},
): Promise<void> {
  const { resources } = namesOf(tablesOf(options))
  const text = `INSERT INTO ${resources} AS r (resource, fence) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET fence = $2 WHERE r.fence <= $2 RETURNING true AS admitted`
  await admitted(errors, resource, fenced(fence, 1), async (key, value) => {
    if ('unsafe' in client) return (await client.unsafe(text, [key, value])).length > 0
    return (await client.query(text, [key, value])).rows.length > 0
  })
}

export function resourcesSchema(tables: Tables): readonly string[] {
  const { resources } = namesOf(tables)
  return [`CREATE TABLE IF NOT EXISTS ${resources} (resource bytea PRIMARY KEY, fence bigint NOT NULL)`]
}
