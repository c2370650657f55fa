import { errorsOf } from '@locks/core/adapter'
import type { AdapterErrors, LockError } from '@locks/core/adapter'
import { codeOf, passwordsOf, refusesDatabase } from './drivers/ioredis.ts'
import type { Client } from './drivers/ioredis.ts'

export const errors: AdapterErrors = errorsOf('@locks/redis')

/** What went wrong, without what ioredis attaches to its errors: the arguments of a command, a password among them. */
class RedisFailure extends Error {
  override readonly name: string = 'RedisFailure'
  /**
   * Of Redis (`OOM`, `READONLY`) or the system (`ECONNREFUSED`), or the name of ioredis' error. `REDIRECTIONS`: the
   * nodes of a Cluster sent a command to each other, or asked to try again, until ioredis gave up.
   */
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
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
    'a key of this lock has a value of another type, left unchanged; choose another name or prefix, or delete it',
  ],
])

/** Redis gives these no code of their own. A server at `maxclients` answers SELECT too, if that comes first. */
const noDatabase = /DB index is out of range|invalid DB index|SELECT is not allowed in cluster mode/

const NO_DATABASE = 'the server does not have this database, so no lock can be taken; correct its number'

/** Any failure of the client as an outage or as final. Never as "busy", and without secrets. */
export function failure(
  error: unknown,
  client: Client,
  lastConnectionError?: unknown,
  given: AdapterErrors = errors,
): LockError {
  const reason = reasonOf(error, lastConnectionError)
  const text = reason instanceof Error ? reason.message : 'unknown error'
  const message = passwordsOf(client).reduce((shown, password) => shown.replaceAll(password, '***'), text)
  const cause = new RedisFailure(codeOf(reason), message)
  const advice = permanent.get(cause.code) ?? (isNoDatabase(reason) ? NO_DATABASE : undefined)
  return advice === undefined
    ? given.unavailable(`Redis failed (${cause.code}): ${message}`, cause)
    : given.invalid(`${advice}: ${message}`, cause)
}

function isNoDatabase(reason: unknown): boolean {
  return codeOf(reason) === 'ERR' && refusesDatabase(reason) && noDatabase.test(reason.message)
}

/** Where ioredis gave up, the last error of the connection says why. A Cluster says what its last node replied. */
function reasonOf(error: unknown, lastConnectionError: unknown): unknown {
  if (codeOf(error) === 'MaxRetriesPerRequestError') return lastConnectionError ?? error
  return error instanceof Error && 'lastNodeError' in error ? (error.lastNodeError ?? error) : error
}

/** Whether Redis itself replied with one of these codes. */
export function repliedWith(error: unknown, ...codes: readonly string[]): boolean {
  const cause = error instanceof Error ? error.cause : undefined
  return cause instanceof RedisFailure && codes.includes(cause.code)
}
