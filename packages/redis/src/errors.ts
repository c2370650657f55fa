import { CERTIFICATE_REFUSED, errorsOf, isCertificateError } from '@locks/core/adapter'
import type { AdapterErrors, LockError } from '@locks/core/adapter'
import { codeOf, isCluster, passwordsOf, refusesDatabase, wasEnded } from './drivers/ioredis.ts'
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

/** Errors without a code of their own: the message, and what to do. */
const uncoded: readonly (readonly [message: RegExp, advice: string])[] = [
  [
    /^ERR unknown command/,
    'the server does not know a command that locks need, so none can be taken; use another server, or allow it',
  ],
  [
    /^Connection in subscriber mode/,
    'the given client has subscribed, so it can send no commands; give a client of its own for locks',
  ],
]

const MOVED =
  'the server is a node of a Cluster, so this lock cannot be taken; connect with redis+cluster:// and its nodes'

const ENDED = 'the given client was ended, so no lock can be taken; give a client that is open'

/** What no retry mends is said here. */
function adviceFor(reason: unknown, text: string, client: Client, isGiven: boolean): string | undefined {
  if (isCertificateError(reason)) return CERTIFICATE_REFUSED
  if (isGiven && wasEnded(client)) return ENDED
  const code = codeOf(reason)
  if (code === 'MOVED') return isCluster(client) ? undefined : MOVED
  if (isNoDatabase(reason)) return NO_DATABASE
  return permanent.get(code) ?? uncoded.find(([message]) => message.test(text))?.[1]
}

/** What all nodes of a Cluster are likely to say alike. */
const ofAllNodes: readonly string[] = ['NOAUTH', 'WRONGPASS', 'NOPERM']

/** Whether the next try may succeed all the same. `worked`: scripts have run on this client. */
function mayPass(error: unknown, code: string, worked: boolean): boolean {
  // One of several nodes said it.
  if (nodeErrorIn(error) !== undefined) return !ofAllNodes.includes(code)
  // The only node of a Cluster was demoted, and the client is on its way to the next primary.
  return code === 'MOVED' && worked
}

/** Any failure of the client as an outage or as final. Never as "busy", and without secrets. */
export function failure(
  error: unknown,
  client: Client,
  lastConnectionError?: unknown,
  given: AdapterErrors = errors,
  isGiven = false,
  worked = false,
): LockError {
  const reason = reasonOf(error, lastConnectionError)
  const text = reason instanceof Error ? reason.message : 'unknown error'
  const message = passwordsOf(client).reduce((shown, password) => shown.replaceAll(password, '***'), text)
  const cause = new RedisFailure(codeOf(reason), message)
  const advice = adviceFor(reason, text, client, isGiven)
  return advice !== undefined && !mayPass(error, cause.code, worked)
    ? given.invalid(`${advice}: ${message}`, cause)
    : given.unavailable(`${advice ?? `Redis failed (${cause.code})`}: ${message}`, cause)
}

function isNoDatabase(reason: unknown): boolean {
  return codeOf(reason) === 'ERR' && refusesDatabase(reason) && noDatabase.test(reason.message)
}

/** Where ioredis gave up, the last error of the connection says why. A Cluster says what its last node replied. */
function reasonOf(error: unknown, lastConnectionError: unknown): unknown {
  if (codeOf(error) === 'MaxRetriesPerRequestError') return lastConnectionError ?? error
  return nodeErrorIn(error) ?? error
}

function nodeErrorIn(error: unknown): unknown {
  return error instanceof Error && 'lastNodeError' in error ? (error.lastNodeError ?? undefined) : undefined
}

/** Whether Redis itself replied with one of these codes. */
export function repliedWith(error: unknown, ...codes: readonly string[]): boolean {
  const cause = error instanceof Error ? error.cause : undefined
  return cause instanceof RedisFailure && codes.includes(cause.code)
}
