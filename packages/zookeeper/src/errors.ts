import { LockError } from '@locks/core/adapter'
import type { Adapter, Capabilities } from '@locks/core/adapter'

/** Codes of the ZooKeeper protocol that something is made of here. */
export const code = {
  connectionLoss: -4,
  noNode: -101,
  noAuth: -102,
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

/** What no retry mends: what it means, and what to do. */
const permanent: ReadonlyMap<number, string> = new Map([
  [code.noAuth, 'so this client cannot use the lock; give auth of a user whom the ACL of its nodes allows'],
  [code.invalidAcl, 'so no lock can be taken; acl "creator" needs auth, other entries a known scheme and id'],
  [code.authFailed, 'so no lock can be taken; correct auth, or set up its scheme at the servers'],
])

function final(error: unknown): unknown {
  const advice = error instanceof RequestError ? permanent.get(error.code) : undefined
  if (!(error instanceof RequestError) || advice === undefined) return error
  return new LockError('LOCK_INVALID_ARGUMENT', `@locks/zookeeper: ${error.message}, ${advice}`, {
    cause: error,
  })
}

/** The adapter, with what no retry mends as an error that core does not try again. */
export function withFinalErrors<C extends Capabilities>(adapter: Adapter<C>): Adapter<C> {
  const rethrow = (error: unknown): never => {
    throw final(error)
  }
  const withdraw = adapter.withdraw?.bind(adapter)
  const wait = adapter.wait?.bind(adapter)
  const list = adapter.list?.bind(adapter)
  const breakIt = adapter.break?.bind(adapter)
  return {
    ...adapter,
    attempt: (request) => adapter.attempt(request).catch(rethrow),
    ...(withdraw && { withdraw: (request) => withdraw(request).catch(rethrow) }),
    renew: (renewals) => adapter.renew(renewals).catch(rethrow),
    release: (grant) => adapter.release(grant).catch(rethrow),
    inspect: (name) => adapter.inspect(name).catch(rethrow),
    ...(wait && { wait: (request, maxMs, signal) => wait(request, maxMs, signal).catch(rethrow) }),
    ...(list && { list: (limit) => list(limit).catch(rethrow) }),
    ...(breakIt && { break: (name, holder) => breakIt(name, holder).catch(rethrow) }),
  }
}

export function unavailable(message: string, cause?: unknown): LockError {
  return new LockError('LOCK_UNAVAILABLE', message, cause === undefined ? {} : { cause })
}

export function invalid(message: string): LockError {
  return new LockError('LOCK_INVALID_ARGUMENT', `@locks/zookeeper: ${message}`)
}
