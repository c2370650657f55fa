import { CERTIFICATE_REFUSED, errorsOf, isCertificateError } from '@locks/core/adapter'
import type { AdapterErrors, LockError } from '@locks/core/adapter'
import type { Failure, Link } from './drivers/driver.ts'

export const errors: AdapterErrors = errorsOf('@locks/redis')

/** What went wrong, without what libraries attach to errors: the arguments of a command, a password among them. */
class RedisFailure extends Error {
  override readonly name: string = 'RedisFailure'
  readonly code: Failure['code']

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
function adviceFor(reason: Failure, cause: RedisFailure, cluster: boolean): string | undefined {
  if (isCertificateError(cause)) return CERTIFICATE_REFUSED
  if (reason.ended) return ENDED
  if (reason.code === 'MOVED') return cluster ? undefined : MOVED
  if (isNoDatabase(reason)) return NO_DATABASE
  return permanent.get(reason.code) ?? uncoded.find(([message]) => message.test(reason.message))?.[1]
}

/** What all nodes of a Cluster are likely to say alike. */
const ofAllNodes: readonly string[] = ['NOAUTH', 'WRONGPASS', 'NOPERM']

/** Whether the next try may succeed all the same. `worked`: scripts have run on this link. */
function mayPass({ code, ofOneNode }: Failure, worked: boolean): boolean {
  if (ofOneNode) return !ofAllNodes.includes(code)
  // The only node of a Cluster was demoted, and the link is on its way to the next primary.
  return code === 'MOVED' && worked
}

/** Any failure of a link as an outage or as final. Never as "busy", and without secrets. */
export function failure(
  error: unknown,
  link: Pick<Link, 'cluster' | 'failureOf'>,
  given: AdapterErrors = errors,
  worked = false,
): LockError {
  const reason = link.failureOf(error)
  const { code, message } = reason
  const cause = new RedisFailure(code, message)
  const advice = adviceFor(reason, cause, link.cluster)
  return advice !== undefined && !mayPass(reason, worked)
    ? given.invalid(`${advice}: ${message}`, cause)
    : given.unavailable(`${advice ?? `Redis failed (${code})`}: ${message}`, cause)
}

function isNoDatabase({ code, message, refusesDatabase }: Failure): boolean {
  return code === 'ERR' && refusesDatabase && noDatabase.test(message)
}

/** Whether Redis itself replied with one of these codes. */
export function repliedWith(error: unknown, ...codes: readonly string[]): boolean {
  const cause = error instanceof Error ? error.cause : undefined
  return cause instanceof RedisFailure && codes.includes(cause.code)
}
