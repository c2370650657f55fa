import { LockError } from '@locks/core/adapter'
import type { SqlErrors } from './errors.ts'

/** Parts of an UPDATE of a table that stores a fence in each row. */
export interface FencePieces {
  /** For the SET list: stores the fence in the row. */
  readonly set: string
  /** For the WHERE clause: a lower fence than the stored one matches no row. */
  readonly where: string
  /** The value of the parameter in both. */
  readonly value: string
}

/** The highest fence that a signed 64-bit column can hold. */
export const MAX_FENCE: bigint = 2n ** 63n - 1n

/** `quoted` and `placeholder` are how the server writes a name and a parameter. */
export function fencePieces(
  errors: SqlErrors,
  fence: bigint,
  column: string,
  quoted: (name: string) => string,
  placeholder: string,
): FencePieces {
  if (typeof fence !== 'bigint' || fence < 0n || fence > MAX_FENCE)
    throw errors.invalid('fence must be a bigint from 0 to 2^63 - 1')
  const name = quoted(columnName(errors, column))
  return { set: `${name} = ${placeholder}`, where: `${name} <= ${placeholder}`, value: String(fence) }
}

/**
 * Has `admit` store the fence of a resource, and rejects with `LOCK_LOST` when that resolves with `false`, because the
 * resource has seen a higher one.
 */
export async function admitted(
  errors: SqlErrors,
  resource: string,
  { value }: FencePieces,
  admit: (key: Buffer, fence: string) => Promise<boolean>,
): Promise<void> {
  const key = keyOf(errors, 'resource', resource)
  const isFresh = await admit(key, value).catch((error: unknown) => Promise.reject(errors.toLockError(error)))
  if (isFresh) return
  throw new LockError(
    'LOCK_LOST',
    `stale fence ${value}: the resource has seen a higher one, so this lease is over; do not write`,
  )
}

/** A name as bytes. Longer ones are refused: a server might cut them and confuse two of them. */
export function keyOf({ invalid }: SqlErrors, what: string, name: string): Buffer {
  if (typeof name !== 'string' || name === '' || /\p{Surrogate}/u.test(name))
    throw invalid(`${what} must be a string that is not empty`)
  const key = Buffer.from(name)
  if (key.length > 1024) throw invalid(`${what} must be at most 1024 bytes of UTF-8`)
  return key
}

/** The name of a column in a table of the program. */
function columnName({ invalid }: SqlErrors, value: unknown): string {
  if (typeof value === 'string' && /^[A-Za-z_][A-Za-z0-9_]{0,62}$/.test(value)) return value
  throw invalid('column must be 1 to 63 letters, digits or _, and not begin with a digit')
}
