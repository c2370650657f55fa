import { isLockError, LockError } from '@locks/core/adapter'

export function invalid(message: string): LockError {
  return new LockError('LOCK_INVALID_ARGUMENT', `@locks/cas: ${message}`)
}

export function unavailable(message: string, cause?: unknown): LockError {
  return new LockError('LOCK_UNAVAILABLE', `@locks/cas: ${message}`, cause === undefined ? {} : { cause })
}

/** The code of a system error, such as `ENOENT`. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/**
 * An error of ioredis, as far as it may be seen: it carries the command with its arguments, which may
 * be a password, so that of the error itself nothing is kept but its name and code.
 */
export function redisError(error: unknown, lastConnectionError?: unknown): LockError {
  if (isLockError(error)) return error
  const name = error instanceof Error ? error.name : 'unknown error'
  const behind = reasonOf(error, lastConnectionError)
  const code = codeOf(behind) ?? replyCode(behind)
  if (code === undefined) return unavailable(`the server failed: ${name}`)
  const cause = Object.assign(new Error(`${name} ${code}`), { code })
  const advice = permanent.get(code)
  if (advice === undefined) return unavailable(`the server failed: ${name} ${code}`, cause)
  return new LockError('LOCK_INVALID_ARGUMENT', `@locks/cas: ${advice} (${code})`, { cause })
}

/** What no retry mends, and what to do about it. */
const permanent: ReadonlyMap<string, string> = new Map([
  ['WRONGPASS', 'the server refuses the user or the password, so no lock can be taken; correct them'],
  [
    'NOAUTH',
    'the server asks for a password and got none, so no lock can be taken; give one, as in redis://:password@host',
  ],
  [
    'NOPERM',
    'the ACL of this user forbids a command or a key that locks need; allow it, or use another user',
  ],
  [
    'WRONGTYPE',
    'the key of this lock has a value of another type, left as it is; choose another name or prefix, or delete it',
  ],
])

/** ioredis gave up: why, only the connection knows. A Cluster says what its last node answered. */
function reasonOf(error: unknown, lastConnectionError: unknown): unknown {
  if (error instanceof Error && error.name === 'MaxRetriesPerRequestError')
    return lastConnectionError ?? error
  return error instanceof Error && 'lastNodeError' in error ? (error.lastNodeError ?? error) : error
}

/** An error reply of the server begins with its code: OOM, READONLY, NOAUTH, NOSCRIPT. */
export function replyCode(error: unknown): string | undefined {
  return error instanceof Error && error.name === 'ReplyError'
    ? /^[A-Z]+/.exec(error.message)?.[0]
    : undefined
}
