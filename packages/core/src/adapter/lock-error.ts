import { errorJson, plainJson, withJson } from './json.ts'
import type { Holder } from './spi.ts'

export type LockErrorCode =
  /** The wait ended while another holder had the lock. */
  | 'LOCK_TIMEOUT'
  /** The lease ended without being released. A guard that refuses a stale fence uses this code too. */
  | 'LOCK_LOST'
  /** The lease was released before. */
  | 'LOCK_NOT_OWNED'
  /** The store failed or did not answer. Never means that another holder has the lock. */
  | 'LOCK_UNAVAILABLE'
  /** A bad name, option or config, or a store that refuses this client until its setup is changed. */
  | 'LOCK_INVALID_ARGUMENT'
  /** The adapter does not support what was asked for; see its capabilities. */
  | 'LOCK_UNSUPPORTED'
  /** The client was closed. */
  | 'LOCK_CLOSED'

export interface LockErrorDetails {
  readonly cause?: unknown
  /** The lock's name. */
  readonly lock?: string
  /** The holder, where the store knows it. */
  readonly holder?: Holder
  /** How long the lock, or the answer of a silent store, was waited for. */
  readonly waitedMs?: number
}

// Registered globally, so that `isLockError` accepts errors from another copy of this package.
const brand = Symbol.for('@locks/LockError')

export class LockError extends Error {
  readonly code: LockErrorCode
  // Only declared, so that an error without them does not have the keys.
  declare readonly lock?: string
  declare readonly holder?: Holder
  /** Of a `LOCK_TIMEOUT`: how long the lock was waited for. Of a silent store: how long its answer was waited for. */
  declare readonly waitedMs?: number

  static {
    Object.defineProperty(this.prototype, 'name', { value: 'LockError', writable: true })
    Object.defineProperty(this.prototype, brand, { value: true })
  }

  constructor(code: LockErrorCode, message: string, details: LockErrorDetails = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined)
    this.code = code
    if (details.lock !== undefined) this.lock = details.lock
    if (details.holder !== undefined) this.holder = details.holder
    if (details.waitedMs !== undefined) this.waitedMs = details.waitedMs
  }

  /** For logs. Of its cause it has only the name, message and code. */
  toJSON(): object {
    const { name, code, message, lock, holder, waitedMs } = this
    const cause = errorJson(this.cause)
    return { name, code, message, lock, holder: holder && plainJson(holder), waitedMs, cause }
  }
}

/** Whether `error` is a `LockError`, from any copy of this package, with that code if one is given. */
export function isLockError(error: unknown, code?: LockErrorCode): error is LockError {
  if (typeof error !== 'object' || error === null || !(brand in error)) return false
  return code === undefined || ('code' in error && error.code === code)
}

export function invalid(message: string): LockError {
  return new LockError('LOCK_INVALID_ARGUMENT', message)
}

export function unsupported(what: string, advice = ''): LockError {
  return new LockError('LOCK_UNSUPPORTED', `${what} is not supported by this adapter${advice}`)
}

/**
 * Whether trying again cannot help: the adapter used any other code than `LOCK_UNAVAILABLE`. A wrong password or a
 * missing table stays until a person changes something.
 */
export function isFinal(error: unknown): error is LockError {
  return isLockError(error) && error.code !== 'LOCK_UNAVAILABLE'
}

/** Why the store is unavailable: its own `LockError` unchanged, any other failure wrapped, or silence. */
export function storeError(lock: string, failure: unknown, waitedMs: number): LockError {
  if (isLockError(failure)) return failure
  if (failure === undefined)
    return new LockError(
      'LOCK_UNAVAILABLE',
      `the store did not answer for lock ${quote(lock)} within ${Math.round(waitedMs)} ms, so it is unknown whether ` +
        'the call took effect; check the store and the network',
      { lock, waitedMs },
    )
  // Only texts meant for people: an object may contain a password.
  const why =
    failure instanceof Error ? failure.message : typeof failure === 'string' ? failure : 'unknown error'
  return new LockError('LOCK_UNAVAILABLE', `the store failed for lock ${quote(lock)}: ${why}`, {
    cause: failure,
    lock,
  })
}

/** The lock is held. `waitedMs` is absent for a try without waiting; `own` is present if this process holds it. */
export function heldError(
  lock: string,
  holder: Holder | undefined,
  waitedMs: number | undefined,
  own?: { readonly advice: string },
): LockError {
  const by = holder === undefined ? '' : ` by ${holderText(holder, own !== undefined)}`
  const after = waitedMs === undefined ? '' : ` after waiting ${Math.round(waitedMs)} ms`
  const advice = own === undefined ? '' : `: ${own.advice}`
  const details = {
    lock,
    ...(holder !== undefined && { holder: withJson(holder) }),
    ...(waitedMs !== undefined && { waitedMs }),
  }
  return new LockError('LOCK_TIMEOUT', `lock ${quote(lock)} is held${by}${after}${advice}`, details)
}

/** Describes the process to look for, as far as the store knows it. */
function holderText({ owner, metadata }: Holder, own: boolean): string {
  const label = metadata?.label === undefined ? [] : [`label ${quote(metadata.label)}`]
  if (own) return `this process (${[`pid ${process.pid}`, ...label, `owner ${quote(owner)}`].join(', ')})`
  if (metadata === undefined) return quote(owner)
  return `${quote(owner)} (${[`pid ${metadata.pid} on ${shown(metadata.host)}`, ...label].join(', ')})`
}

/** Quotes a host name that does not look like one: any client may have written it. */
function shown(host: string): string {
  return /^[\w.-]{1,80}$/.test(host) ? host : quote(host)
}

/** A lock name for a message: quoted, on one line, and not too long. */
export function quote(name: string): string {
  return name.length <= 80 ? JSON.stringify(name) : `${JSON.stringify(name.slice(0, 76)).slice(0, -1)}…"`
}
