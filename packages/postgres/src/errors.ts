import { isLockError, LockError } from '@locks/core'

/** The statement was undone as a whole, so it may simply be run again. */
const transient: ReadonlySet<string> = new Set([
  '40001', // serialization failure
  '40P01', // deadlock detected
  '55P03', // lock not available: the server's own lock_timeout
  '23505', // unique violation: two made the same row
])

/** What no retry mends: the tables are not there, or not ours to use. */
const setUp: ReadonlyMap<string, string> = new Map([
  ['42P01', 'a table is missing; run migrate() first'],
  ['42883', 'a function is missing; run migrate() first'],
  ['3F000', 'the schema is missing; run migrate() first'],
  ['42703', 'the tables are of another version; run migrate()'],
  ['42501', 'the database role may not do that'],
])

/** SQLSTATE, or the system's code of a socket error. Messages are for people and change with the locale. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

export function isTransient(error: unknown): boolean {
  return transient.has(codeOf(error) ?? '')
}

/** Errors of `pg` carry details such as row values and internal queries; only what is meant to be read goes on. */
export function toLockError(error: unknown): LockError {
  if (isLockError(error)) return error
  const code = codeOf(error)
  const message = error instanceof Error ? error.message : 'unknown error'
  const told = code === undefined ? message : `${message} (${code})`
  const cause = new Error(message)
  if (code !== undefined) Object.assign(cause, { code })
  const advice = setUp.get(code ?? '')
  if (advice !== undefined)
    return new LockError('LOCK_INVALID_ARGUMENT', `@locks/postgres: ${advice}: ${told}`, { cause })
  return new LockError('LOCK_UNAVAILABLE', `PostgreSQL failed: ${told}`, { cause })
}

export function unavailable(message: string): LockError {
  return new LockError('LOCK_UNAVAILABLE', `@locks/postgres: ${message}`)
}

export function invalid(message: string): LockError {
  return new LockError('LOCK_INVALID_ARGUMENT', `@locks/postgres: ${message}`)
}
