import type { Handover } from './spi.ts'
import { invalid } from './validate.ts'

/** A lease as text: what a successor needs to adopt it and to go on renewing it alike. */
export interface HandoverText extends Handover {
  readonly owner: string
  readonly ttlMs: number
  readonly lockDelayMs: number
}

export function writeHandover(lease: HandoverText): string {
  const { name, attemptId, owner, fence, ttlMs, lockDelayMs } = lease
  const fields = { v: 1, name, attemptId, owner, fence: String(fence), ttlMs, lockDelayMs }
  return Buffer.from(JSON.stringify(fields)).toString('base64url')
}

export function readHandover(text: unknown): HandoverText {
  const fields = typeof text === 'string' ? parse(Buffer.from(text, 'base64url').toString()) : undefined
  if (
    typeof fields === 'object' &&
    fields !== null &&
    'v' in fields &&
    fields.v === 1 &&
    'name' in fields &&
    typeof fields.name === 'string' &&
    'attemptId' in fields &&
    typeof fields.attemptId === 'string' &&
    /^[^]{1,256}$/.test(fields.attemptId) &&
    'owner' in fields &&
    typeof fields.owner === 'string' &&
    'fence' in fields &&
    typeof fields.fence === 'string' &&
    /^\d{1,40}$/.test(fields.fence) &&
    'ttlMs' in fields &&
    typeof fields.ttlMs === 'number' &&
    'lockDelayMs' in fields &&
    typeof fields.lockDelayMs === 'number'
  ) {
    const { name, attemptId, owner, fence, ttlMs, lockDelayMs } = fields
    return { name, attemptId, owner, fence: BigInt(fence), ttlMs, lockDelayMs }
  }
  throw invalid('not the text of a serialised lease')
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}
