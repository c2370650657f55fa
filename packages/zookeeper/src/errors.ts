import { LockError } from '@locks/core'

/** Codes of the ZooKeeper protocol that something is made of here. */
export const code = {
  connectionLoss: -4,
  noNode: -101,
  noAuth: -102,
  nodeExists: -110,
  notEmpty: -111,
  sessionExpired: -112,
  authFailed: -115,
  sessionMoved: -118,
} as const

const reasons: ReadonlyMap<number, string> = new Map([
  [code.connectionLoss, 'the connection to ZooKeeper was lost'],
  [code.sessionExpired, 'the ZooKeeper session has expired'],
  [code.noNode, 'a node is missing; does the chroot exist?'],
  [code.noAuth, 'ZooKeeper denies access (NO_AUTH); check auth and acl'],
  [-114, 'ZooKeeper refuses the ACL (INVALID_ACL); acl "creator" needs auth'],
  [code.authFailed, 'ZooKeeper refuses the credentials (AUTH_FAILED)'],
])

/** A request that ZooKeeper refused, or that may or may not have been executed. */
export class RequestError extends Error {
  override readonly name = 'RequestError'
  readonly code: number

  constructor(failed: number) {
    super(reasons.get(failed) ?? `ZooKeeper answered with error ${failed}`)
    this.code = failed
  }
}

export function isRequestError(error: unknown, ...codes: readonly number[]): error is RequestError {
  return error instanceof RequestError && (codes.length === 0 || codes.includes(error.code))
}

/** Whether the connection or the session ended before there was an answer, so that none is known. */
export function isCutOff(error: unknown): boolean {
  return isRequestError(error, code.connectionLoss, code.sessionExpired, code.authFailed)
}

/** Whether a refusal shows that the session lives: the request itself was looked at and found wanting. */
export function isVerdict(failed: number): boolean {
  return failed <= -100 && failed !== code.sessionExpired && failed !== code.sessionMoved
}

export function unavailable(message: string, cause?: unknown): LockError {
  return new LockError('LOCK_UNAVAILABLE', message, cause === undefined ? {} : { cause })
}

export function invalid(message: string): LockError {
  return new LockError('LOCK_INVALID_ARGUMENT', `@locks/zookeeper: ${message}`)
}
