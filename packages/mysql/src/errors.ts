import { isLockError, LockError } from '@locks/core'

/** The statement was undone as a whole, so it may simply be run again. */
const transient: ReadonlySet<number> = new Set([
  1213, // deadlock
  1205, // lock wait timeout
])

/** What no retry mends: the tables are not there, or not ours to use. */
const setUp: ReadonlyMap<number, string> = new Map([
  [1146, 'a table is missing; run migrate() first'],
  [1049, 'the database is missing; run migrate() first'],
  [1046, 'name a database in the url, or a schema'],
  [1054, 'the tables are of another version; run migrate()'],
  [1044, 'the user may not use that database'],
  [1142, 'the user may not use those tables'],
])

/** The server's error number. Messages are for people and change with the locale. */
export function errnoOf(error: unknown): number | undefined {
  if (!(error instanceof Error)) return undefined
  if ('errno' in error && typeof error.errno === 'number') return error.errno
  return isLockError(error) ? errnoOf(error.cause) : undefined
}

export function isTransient(error: unknown): boolean {
  return transient.has(errnoOf(error) ?? 0)
}

/** Errors of mysql2 carry the statement with its values; only what is meant to be read goes on. */
export function toLockError(error: unknown): LockError {
  if (isLockError(error)) return error
  const errno = errnoOf(error)
  const message = error instanceof Error ? error.message : 'unknown error'
  const code =
    error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
  const known = { ...(code !== undefined && { code }), ...(errno !== undefined && { errno }) }
  const cause = Object.assign(new Error(message), known)
  const told = code === undefined ? message : `${message} (${code})`
  const advice = setUp.get(errno ?? 0)
  if (advice !== undefined)
    return new LockError('LOCK_INVALID_ARGUMENT', `@locks/mysql: ${advice}: ${told}`, { cause })
  return new LockError('LOCK_UNAVAILABLE', `MySQL failed: ${told}`, { cause })
}

export function unavailable(message: string): LockError {
  return new LockError('LOCK_UNAVAILABLE', `@locks/mysql: ${message}`)
}

export function invalid(message: string): LockError {
  return new LockError('LOCK_INVALID_ARGUMENT', `@locks/mysql: ${message}`)
}
