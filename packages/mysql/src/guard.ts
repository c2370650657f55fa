import { admitted, fencePieces } from '@locks/sql'
import type { FencePieces } from '@locks/sql'
import { errors } from './errors.ts'
import type { TableOptions } from './option-table.ts'
import { tablesOf } from './options.ts'
import { namesOf } from './schema.ts'

/**
 * Makes an UPDATE refuse a stale holder: a row that has seen a higher fence is not updated.
 * `column` is a `BIGINT NOT NULL DEFAULT 0`. Count matched rows, not changed ones, as mysql2 does by default.
 */
export function fenced(fence: bigint, column: string = 'fence'): FencePieces {
  return fencePieces(errors, fence, column, (name) => `\`${name}\``, '?')
}

/** What `admitFence` needs of a promise connection of mysql2. */
export interface Executes {
  execute(text: string, values: (string | Buffer)[]): Promise<readonly unknown[]>
}

/**
 * For a resource that cannot have a column for the fence: call this first in the transaction that changes it. Rejects
 * with `LOCK_LOST` when the resource has seen a higher fence. Otherwise all other holders wait here until that
 * transaction ends, and those with a lower fence are refused from then on.
 */
export async function admitFence(
  connection: Executes,
  resource: string,
  fence: bigint,
  options: TableOptions = {},
): Promise<void> {
  const { resources } = namesOf(tablesOf(options))
  const raise = `INSERT INTO ${resources} (resource, fence) VALUES (?, ?)
ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))`
  const look = `SELECT 1 FROM ${resources} WHERE resource = ? AND fence <= ? FOR UPDATE`
  await admitted(errors, resource, fenced(fence), async (key, value) => {
    await connection.execute(raise, [key, value])
    const [rows] = await connection.execute(look, [key, value])
    return Array.isArray(rows) && rows.length > 0
  })
}
