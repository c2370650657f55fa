import { LockError } from '@locks/core'
import { invalid, toLockError } from './errors.ts'
import { placeOf } from './options.ts'
import type { PlaceOptions } from './options.ts'
import { namesOf } from './sql.ts'

/** Pieces of an UPDATE of a table that has a fence of its own in each row. */
export interface FencePieces {
  /** For the SET list, with one value: the row remembers the fence that wrote it last. */
  readonly set: string
  /** For the WHERE clause, with one value: whoever comes with a lower fence changes no row. */
  readonly where: string
  /** The value of either parameter. */
  readonly value: string
}

/**
 * Makes an UPDATE refuse a stale holder: no row is updated when the row has seen a higher fence.
 * `column` is a `BIGINT NOT NULL DEFAULT 0`. Count matched rows, not changed ones: mysql2 does, unless told otherwise.
 */
export function fenced(fence: bigint, column = 'fence'): FencePieces {
  if (typeof fence !== 'bigint' || fence < 0n || fence > 9_223_372_036_854_775_807n)
    throw invalid('fence must be a bigint of 0 to 2^63 - 1')
  if (typeof column !== 'string' || !/^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(column))
    throw invalid('column must be letters, digits or _, and not begin with a digit')
  return { set: `\`${column}\` = ?`, where: `\`${column}\` <= ?`, value: String(fence) }
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
  const key = Buffer.from(resource)
  try {
    const raise = `INSERT INTO ${resources} (resource, fence) VALUES (?, ?)
ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))`
    await connection.execute(raise, [key, value])
    const look = `SELECT 1 FROM ${resources} WHERE resource = ? AND fence <= ? FOR UPDATE`
    const [rows] = await connection.execute(look, [key, value])
    if (Array.isArray(rows) && rows.length > 0) return
  } catch (error) {
    throw toLockError(error)
  }
  throw new LockError('LOCK_LOST', `stale fence ${fence}: the resource has seen a higher one`)
}
