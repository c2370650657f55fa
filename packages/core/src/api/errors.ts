import { errorJson, plainJson } from './json.ts'
import type { Holder } from '../adapter/spi.ts'

export type LockErrorCode =
  /** The wait was over and somebody else held the lock. */
  | 'LOCK_TIMEOUT'
  /** The lease ended without being released; a guard that refuses a stale fence says so too. */
  | 'LOCK_LOST'
  /** Released once too often, or by somebody who never held it. */
  | 'LOCK_NOT_OWNED'
  /** The store failed or did not answer. Never means that somebody else holds the lock. */
  | 'LOCK_UNAVAILABLE'
  /** A bad name, option or config; or the store refuses this client until its set-up is changed. */
  | 'LOCK_INVALID_ARGUMENT'
  /** The adapter has not got what was asked for; see its capabilities. */
  | 'LOCK_UNSUPPORTED'
  /** The client was closed. */
  | 'LOCK_CLOSED'

export interface LockErrorDetails {
  readonly cause?: unknown
  /** The lock's name. */
  readonly lock?: string
  /** Who holds it, where the store knows. */
  readonly holder?: Holder
}

// Registered globally, so that errors of two copies of this package are told apart by nothing.
const brand = Symbol.for('@locks/LockError')

export class LockError extends Error {
  readonly code: LockErrorCode
  // Declared only, so that an error without them has no such keys.
  declare readonly lock?: string
  declare readonly holder?: Holder

  static {
    Object.defineProperty(this.prototype, 'name', { value: 'LockError', writable: true })
    Object.defineProperty(this.prototype, brand, { value: true })
  }

  constructor(code: LockErrorCode, message: string, details: LockErrorDetails = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined)
    this.code = code
    if (details.lock !== undefined) this.lock = details.lock
    if (details.holder !== undefined) this.holder = details.holder
  }

  /** For logs: with its message, and of its cause no more than name, message and code. */
  toJSON(): object {
    const { name, code, message, lock, holder } = this
    return { name, code, message, lock, holder: holder && plainJson(holder), cause: errorJson(this.cause) }
  }
}

/** Whether `error` is a `LockError`, of any copy of this package, and of that code if one is given. */
export function isLockError(error: unknown, code?: LockErrorCode): error is LockError {
  if (typeof error !== 'object' || error === null || !(brand in error)) return false
  return code === undefined || ('code' in error && error.code === code)
}

/**
 * Whether trying again cannot help: the adapter says so by any other code than `LOCK_UNAVAILABLE`. A wrong password or
 * a missing table is as it is until a person changes something.
 */
export function isFinal(error: unknown): error is LockError {
  return isLockError(error) && error.code !== 'LOCK_UNAVAILABLE'
}

/** Why the store could not be had: its own `LockError` as it is, any other failure wrapped, or silence. */
export function storeError(lock: string, failure?: unknown): LockError {
  if (isLockError(failure)) return failure
  if (failure === undefined)
    return new LockError('LOCK_UNAVAILABLE', `the store did not answer for lock ${quote(lock)}`, { lock })
  // Only what is meant to be read: an object may carry anything, a password among it.
  const why =
    failure instanceof Error ? failure.message : typeof failure === 'string' ? failure : 'unknown error'
  return new LockError('LOCK_UNAVAILABLE', `the store failed for lock ${quote(lock)}: ${why}`, {
    cause: failure,
    lock,
  })
}

/** The lock is held. `waitedMs` unless it was a try without waiting; `own` where this process itself holds it. */
export function heldError(
  lock: string,
  holder: Holder | undefined,
  waitedMs: number | undefined,
  own?: { readonly advice: string },
): LockError {
  const by = holder === undefined ? '' : ` by ${holderText(holder, own !== undefined)}`
  const after = waitedMs === undefined ? '' : ` after waiting ${Math.round(waitedMs)} ms`
  const advice = own === undefined ? '' : `: ${own.advice}`
  const details = holder === undefined ? { lock } : { lock, holder }
  return new LockError('LOCK_TIMEOUT', `lock ${quote(lock)} is held${by}${after}${advice}`, details)
}

/** Which process to look for, as far as the store knows. */
function holderText({ owner, metadata }: Holder, own: boolean): string {
  const label = metadata?.label === undefined ? [] : [`label ${quote(metadata.label)}`]
  if (own) return `this process (${[`pid ${process.pid}`, ...label, `owner ${quote(owner)}`].join(', ')})`
  if (metadata === undefined) return quote(owner)
  return `${quote(owner)} (${[`pid ${metadata.pid} on ${shown(metadata.host)}`, ...label].join(', ')})`
}

/** A host name is shown bare if it looks like one: the store may say anything. */
function shown(host: string): string {
  return /^[\w.-]{1,80}$/.test(host) ? host : quote(host)
}

/** A lock name as it may stand in a message: on one line and not too long. */
export function quote(name: string): string {
  return name.length <= 80 ? JSON.stringify(name) : `${JSON.stringify(name.slice(0, 76)).slice(0, -1)}…"`
}
