import { LockError } from '@locks/core/adapter'
import type { Cluster, Redis } from 'ioredis'
import { passwordsOf } from './client.ts'

/** What went wrong, without what ioredis hangs on its errors: the arguments of a command, a password among them. */
class RedisFailure extends Error {
  override readonly name: string = 'RedisFailure'
  /**
   * Redis' own (`OOM`, `READONLY`), the system's (`ECONNREFUSED`), or the name of ioredis' error; `REDIRECTIONS` where
   * the nodes of a Cluster sent a command to each other or told it to try again until ioredis gave up.
   */
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** The code that a failure of ioredis stands for. A reply's first word is its code, by the protocol. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'UNKNOWN'
  if ('code' in error && typeof error.code === 'string') return error.code
  if (error.name === 'ReplyError') return /^[A-Z]+/.exec(error.message)?.[0] ?? 'ERR'
  if (error.message.startsWith('Too many Cluster redirections')) return 'REDIRECTIONS'
  return error.name
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
    'a key of this lock has a value of another type, left as it is; choose another name or prefix, or delete it',
  ],
])

/** Whatever the client fails with, as an outage or as final: never as "busy", and without its secrets. */
export function failure(error: unknown, client: Redis | Cluster, lastConnectionError?: unknown): LockError {
  const behind = reasonOf(error, lastConnectionError)
  const told = behind instanceof Error ? behind.message : 'unknown error'
  const message = passwordsOf(client).reduce((shown, password) => shown.replaceAll(password, '***'), told)
  const cause = new RedisFailure(codeOf(behind), message)
  const advice = permanent.get(cause.code)
  if (advice === undefined)
    return new LockError('LOCK_UNAVAILABLE', `Redis failed (${cause.code}): ${message}`, { cause })
  return new LockError('LOCK_INVALID_ARGUMENT', `@locks/redis: ${advice}: ${message}`, { cause })
}

/** ioredis gave up or was cut off: why, only the connection knows. A Cluster says what its last node answered. */
function reasonOf(error: unknown, lastConnectionError: unknown): unknown {
  if (codeOf(error) === 'MaxRetriesPerRequestError') return lastConnectionError ?? error
  return error instanceof Error && 'lastNodeError' in error ? (error.lastNodeError ?? error) : error
}

/** Whether Redis itself answered with one of these codes. */
export function repliedWith(error: unknown, ...codes: readonly string[]): boolean {
  const cause = error instanceof Error ? error.cause : undefined
  return cause instanceof RedisFailure && codes.includes(cause.code)
}

export function invalid(message: string): LockError {
  return new LockError('LOCK_INVALID_ARGUMENT', `@locks/redis: ${message}`)
}
