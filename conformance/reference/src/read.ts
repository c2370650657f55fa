import type { Busy, Grant, LockState, PushedGrant, RenewOutcome } from '@locks/core/adapter'

/** Converts replies of the server to answers of the SPI. An invalid reply is an error, never "busy" or "lost". */
export function readAttempt(value: unknown): Grant | Busy {
  if (isRecord(value) && value['busy'] === true) return { ...value, busy: true }
  return readGrant(value)
}

export function readGrant(value: unknown): Grant {
  if (isGrant(value)) return value
  throw unreadable()
}

export function readPushed(value: unknown): PushedGrant | undefined {
  if (value === undefined) return undefined
  if (isGrant(value) && 'grantedAt' in value && typeof value.grantedAt === 'number')
    return { ...value, grantedAt: value.grantedAt }
  throw unreadable()
}

export function readRenew(value: unknown): readonly RenewOutcome[] {
  if (Array.isArray(value) && value.every(isRenewOutcome)) return value
  throw unreadable()
}

export function readRelease(value: unknown): 'released' | 'not-held' {
  if (value === 'released' || value === 'not-held') return value
  throw unreadable()
}

export function readInspect(value: unknown): LockState {
  if (isLockState(value)) return value
  throw unreadable()
}

function isGrant(value: unknown): value is Grant {
  return (
    isRecord(value) &&
    typeof value['name'] === 'string' &&
    typeof value['attemptId'] === 'string' &&
    typeof value['fence'] === 'bigint' &&
    typeof value['ttlMs'] === 'number'
  )
}

function isRenewOutcome(value: unknown): value is RenewOutcome {
  return value === 'renewed' || value === 'lost' || value === 'unknown'
}

function isLockState(value: unknown): value is LockState {
  return isRecord(value) && typeof value['name'] === 'string' && typeof value['held'] === 'boolean'
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

function unreadable(): Error {
  return new Error('the reference server gave an answer of the wrong shape')
}
