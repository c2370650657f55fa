import { LockError } from '@locks/core/adapter'
import { columnName } from './checks.ts'
import type { Faults } from './faults.ts'

/** Pieces of an UPDATE of a table that has a fence of its own in each row. */
export interface FencePieces {
  /** For the SET list: the row remembers the fence that wrote it last. */
  readonly set: string
  /** For the WHERE clause: whoever comes with a lower fence changes no row. */
  readonly where: string
  /** The value of the parameter in either. */
  readonly value: string
}

const MOST = 9_223_372_036_854_775_807n

/** `quoted` and `placeholder` are how the server writes a name and a parameter. */
export function fencePieces(
  faults: Faults,
  fence: bigint,
  column: string,
  quoted: (name: string) => string,
  placeholder: string,
): FencePieces {
  if (typeof fence !== 'bigint' || fence < 0n || fence > MOST)
    throw faults.invalid('fence must be a bigint of 0 to 2^63 - 1')
  const name = quoted(columnName(faults, column))
  return { set: `${name} = ${placeholder}`, where: `${name} <= ${placeholder}`, value: String(fence) }
}

/** The bytes of a resource's name, all of which fit: a server might cut them, or take two resources for the same. */
export function resourceKey({ invalid }: Faults, resource: string): Buffer {
  if (typeof resource !== 'string' || resource === '' || /\p{Surrogate}/u.test(resource))
    throw invalid('resource must be a text that is not empty')
  const key = Buffer.from(resource)
  if (key.length > 1024) throw invalid('resource must be at most 1024 bytes of UTF-8')
  return key
}

export function staleFence(fence: bigint): LockError {
  return new LockError('LOCK_LOST', `stale fence ${fence}: the resource has seen a higher one`)
}
