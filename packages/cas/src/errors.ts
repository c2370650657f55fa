import { isLockError, LockError } from '@locks/core'

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
export function redisError(error: unknown): LockError {
  if (isLockError(error)) return error
  const name = error instanceof Error ? error.name : 'unknown error'
  const code = codeOf(error) ?? replyCode(error)
  return unavailable(`the server failed: ${code === undefined ? name : `${name} ${code}`}`)
}

/** An error reply of the server begins with its code: OOM, READONLY, NOAUTH, NOSCRIPT. */
export function replyCode(error: unknown): string | undefined {
  return error instanceof Error && error.name === 'ReplyError'
    ? /^[A-Z]+/.exec(error.message)?.[0]
    : undefined
}
