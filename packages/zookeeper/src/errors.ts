import { errorsOf, LockError } from '@locks/core/adapter'
import type { AdapterErrors } from '@locks/core/adapter'

export const errors: AdapterErrors = errorsOf('@locks/zookeeper')

/** The codes of the ZooKeeper protocol that this package distinguishes. */
export const code = {
  connectionLoss: -4,
  noNode: -101,
  noAuth: -102,
  badVersion: -103,
  nodeExists: -110,
  notEmpty: -111,
  sessionExpired: -112,
  invalidAcl: -114,
  authFailed: -115,
  sessionMoved: -118,
} as const

const reasons: ReadonlyMap<number, string> = new Map([
  [code.connectionLoss, 'the connection to ZooKeeper was lost'],
  [code.sessionExpired, 'the ZooKeeper session has expired'],
  [code.noNode, 'a node is missing'],
  [code.noAuth, 'ZooKeeper denies access (NO_AUTH)'],
  [code.invalidAcl, 'ZooKeeper refuses the ACL (INVALID_ACL)'],
  [code.authFailed, 'ZooKeeper refuses the credentials (AUTH_FAILED)'],
])

/** What an error that no retry can fix means, and what to do about it. */
const permanent: ReadonlyMap<number, string> = new Map([
  [code.noAuth, 'so this client cannot use the lock; set auth to a user that the ACL of its nodes allows'],
  [
    code.invalidAcl,
    'so no lock can be acquired; acl "creator" needs auth, other entries a known scheme and id',
  ],
  [code.authFailed, 'so no lock can be acquired; correct auth, or configure its scheme on the servers'],
])

class RequestError extends Error {
  override readonly name = 'RequestError'
  readonly code: number

  constructor(failed: number) {
    super(reasonOf(failed))
    this.code = failed
  }
}

export function reasonOf(failed: number): string {
  return reasons.get(failed) ?? `ZooKeeper returned error ${failed}`
}

/** The error of a request that was refused, or whose outcome is unknown. Core does not retry a permanent one. */
export function requestError(failed: number): Error {
  const error = new RequestError(failed)
  const advice = permanent.get(failed)
  return advice === undefined ? error : errors.invalid(`${error.message}, ${advice}`, error)
}

export function isRequestError(error: unknown, ...codes: readonly number[]): boolean {
  const request = error instanceof LockError ? error.cause : error
  return request instanceof RequestError && (codes.length === 0 || codes.includes(request.code))
}

/** Whether the connection or the session ended before the answer, so that the outcome is unknown. */
export function isCutOff(error: unknown): boolean {
  return isRequestError(error, code.connectionLoss, code.sessionExpired, code.authFailed)
}

/** Whether a refusal shows that the session is alive: the server looked at the request itself. */
export function isVerdict(failed: number): boolean {
  return failed <= -100 && failed !== code.sessionExpired && failed !== code.sessionMoved
}

export function missingChroot(): LockError {
  return errors.invalid(
    'the chroot of the url is missing, so no lock can be acquired; create it, or correct the url',
  )
}
