import { isAttemptId } from '../adapter/attempt-id.ts'
import { MAX_FENCE } from '../adapter/fence.ts'
import type { Handover } from '../adapter/spi.ts'
import { invalid } from '../adapter/lock-error.ts'

/** A serialized lease: what a successor needs to adopt it and to keep renewing it in the same way. */
export interface HandoverText extends Handover {
  readonly owner: string
  readonly ttlMs: number
  readonly lockDelayMs: number
  /** What remained of it when the text was written, if any. The successor counts it from when it resumes. */
  readonly minHoldMs?: number
}

/** Longer than any text that `writeHandover` makes from a valid lease. */
const MAX_TEXT = 16_384

/** The attempt id makes the text a credential: the store shows it to no one. */
export function writeHandover(lease: HandoverText): string {
  const { name, attemptId, owner, fence, ttlMs, lockDelayMs, minHoldMs } = lease
  const kept = minHoldMs === undefined ? {} : { minHoldMs }
  const fields = { v: 1, name, attemptId, owner, fence: String(fence), ttlMs, lockDelayMs, ...kept }
  return Buffer.from(JSON.stringify(fields)).toString('base64url')
}

/**
 * Accepts only what `writeHandover` makes: the same fields, in the same encoding. The ranges of name,
 * owner, `ttlMs`, `lockDelayMs` and `minHoldMs` are checked as options are, by `resumeLease`.
 */
export function readHandover(text: unknown): HandoverText {
  const lease = typeof text === 'string' && text.length <= MAX_TEXT ? parse(text) : undefined
  if (lease === undefined || writeHandover(lease) !== text)
    throw invalid('the text is not a serialized lease: pass the result of lease.serialize() unchanged')
  return lease
}

function parse(text: string): HandoverText | undefined {
  const fields = json(Buffer.from(text, 'base64url').toString())
  if (
    typeof fields === 'object' &&
    fields !== null &&
    'name' in fields &&
    typeof fields.name === 'string' &&
    'attemptId' in fields &&
    isAttemptId(fields.attemptId) &&
    'owner' in fields &&
    typeof fields.owner === 'string' &&
    'fence' in fields &&
    typeof fields.fence === 'string' &&
    /^[1-9]\d{0,18}$/.test(fields.fence) &&
    BigInt(fields.fence) <= MAX_FENCE &&
    'ttlMs' in fields &&
    typeof fields.ttlMs === 'number' &&
    'lockDelayMs' in fields &&
    typeof fields.lockDelayMs === 'number'
  ) {
    const { name, attemptId, owner, fence, ttlMs, lockDelayMs } = fields
    const lease = { name, attemptId, owner, fence: BigInt(fence), ttlMs, lockDelayMs }
    if (!('minHoldMs' in fields)) return lease
    return typeof fields.minHoldMs === 'number' ? { ...lease, minHoldMs: fields.minHoldMs } : undefined
  }
  return undefined
}

function json(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
