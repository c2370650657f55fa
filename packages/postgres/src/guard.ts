import { LockError } from '@locks/core'
import type { ClientBase } from 'pg'
import { invalid, toLockError } from './errors.ts'
import { placeOf } from './options.ts'
import type { PlaceOptions } from './options.ts'
import { namesOf } from './sql.ts'

/** Pieces of an UPDATE of a table that has a fence of its own in each row. */
export interface FencePieces {
  /** For the SET list: the row remembers the fence that wrote it last. */
  readonly set: string
  /** For the WHERE clause: whoever comes with a lower fence changes no row. */
  readonly where: string
  /** The value of the parameter. */
  readonly value: string
}

/**
 * Makes an UPDATE refuse a stale holder: no row is updated when the row has seen a higher fence.
 * `parameter` is the number of a parameter of yours that is free, `column` a `bigint NOT NULL DEFAULT 0`.
 */
export function fenced(fence: bigint, parameter: number, column = 'fence'): FencePieces {
  if (typeof fence !== 'bigint' || fence < 0n || fence > 9_223_372_036_854_775_807n)
    throw invalid('fence must be a bigint of 0 to 2^63 - 1')
  if (!Number.isInteger(parameter) || parameter < 1 || parameter > 65_535)
    throw invalid('parameter must be the number of a parameter, from 1')
  if (typeof column !== 'string' || !/^[A-Za-z_][A-Za-z0-9_]{0,62}$/.test(column))
    throw invalid('column must be letters, digits or _, and not begin with a digit')
  const placeholder = `$${parameter}`
  return { set: `"${column}" = ${placeholder}`, where: `"${column}" <= ${placeholder}`, value: String(fence) }
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
  const text = `INSERT INTO ${resources} AS r (resource, fence) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET fence = $2 WHERE r.fence <= $2 RETURNING true AS admitted`
  const { rows } = await client
    .query<{ admitted: unknown }>(text, [Buffer.from(resource), value])
    .catch((error: unknown) => Promise.reject(toLockError(error)))
  if (rows.length === 0)
    throw new LockError('LOCK_LOST', `stale fence ${fence}: the resource has seen a higher one`)
}

export function resourcesSchema(options: PlaceOptions): readonly string[] {
  const { resources } = namesOf(placeOf(options))
  return [`CREATE TABLE IF NOT EXISTS ${resources} (resource bytea PRIMARY KEY, fence bigint NOT NULL)`]
}
