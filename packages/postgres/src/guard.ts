import { fencePieces, resourceKey, staleFence, wholeNumber } from '@locks/sql'
import type { FencePieces } from '@locks/sql'
import type { ClientBase } from 'pg'
import { faults } from './errors.ts'
import type { PlaceOptions } from './option-table.ts'
import { placeOf } from './options.ts'
import { namesOf } from './sql.ts'

/**
 * Makes an UPDATE refuse a stale holder: no row is updated when the row has seen a higher fence.
 * `parameter` is the number of a parameter of yours that is free, `column` a `bigint NOT NULL DEFAULT 0`.
 */
export function fenced(fence: bigint, parameter: number, column: string = 'fence'): FencePieces {
  const at = wholeNumber(faults, 'parameter', parameter, [1, 65_535])
  return fencePieces(faults, fence, column, (name) => `"${name}"`, `$${at}`)
}

/**
 * For what cannot have a column of its own: call it first in the transaction that changes `resource`.
 * Rejects with `LOCK_LOST` when a higher fence was there before; else nobody else gets past it until
 * that transaction ends, and afterwards nobody with a lower fence.
 */
export async function admitFence(
  client: Pick<ClientBase, 'query'>,
  resource: string,
  fence: bigint,
  options: PlaceOptions = {},
): Promise<void> {
  const { resources } = namesOf(placeOf(options))
  const { value } = fenced(fence, 1)
  const key = resourceKey(faults, resource)
  const text = `INSERT INTO ${resources} AS r (resource, fence) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET fence = $2 WHERE r.fence <= $2 RETURNING true AS admitted`
  const { rows } = await client
    .query<{ admitted: unknown }>(text, [key, value])
    .catch((error: unknown) => Promise.reject(faults.toLockError(error)))
  if (rows.length === 0) throw staleFence(fence)
}

export function resourcesSchema(options: PlaceOptions): readonly string[] {
  const { resources } = namesOf(placeOf(options))
  return [`CREATE TABLE IF NOT EXISTS ${resources} (resource bytea PRIMARY KEY, fence bigint NOT NULL)`]
}
