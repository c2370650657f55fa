import { fencePieces, resourceKey, staleFence } from '@locks/sql'
import type { FencePieces } from '@locks/sql'
import { faults } from './errors.ts'
import type { PlaceOptions } from './option-table.ts'
import { placeOf } from './options.ts'
import { namesOf } from './schema.ts'

/**
 * Makes an UPDATE refuse a stale holder: no row is updated when the row has seen a higher fence.
 * `column` is a `BIGINT NOT NULL DEFAULT 0`. Count matched rows, not changed ones: mysql2 does, unless told otherwise.
 */
export function fenced(fence: bigint, column: string = 'fence'): FencePieces {
  return fencePieces(faults, fence, column, (name) => `\`${name}\``, '?')
}

/** What `admitFence` needs of a promise connection of mysql2. */
export interface Executes {
  execute(text: string, values: (string | Buffer)[]): Promise<readonly unknown[]>
}

/**
 * For what cannot have a column of its own: call it first in the transaction that changes `resource`.
 * Rejects with `LOCK_LOST` when a higher fence was there before; else nobody else gets past it until
 * that transaction ends, and afterwards nobody with a lower fence.
 */
export async function admitFence(
  connection: Executes,
  resource: string,
  fence: bigint,
  options: PlaceOptions = {},
): Promise<void> {
  const { resources } = namesOf(placeOf(options))
  const { value } = fenced(fence)
  const key = resourceKey(faults, resource)
  try {
    const raise = `INSERT INTO ${resources} (resource, fence) VALUES (?, ?)
ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))`
    await connection.execute(raise, [key, value])
    const look = `SELECT 1 FROM ${resources} WHERE resource = ? AND fence <= ? FOR UPDATE`
    const [rows] = await connection.execute(look, [key, value])
    if (Array.isArray(rows) && rows.length > 0) return
  } catch (error) {
    throw faults.toLockError(error)
  }
  throw staleFence(fence)
}
