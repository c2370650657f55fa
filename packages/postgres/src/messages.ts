import { MAX_FENCE } from '@locks/sql'
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

// Messages sent by NOTIFY when a lock is handed off. Every role may send and read them, on any channel. So no message
// contains an attempt id, and a grant counts only with a proof made from the secret of its waiter.

export type Message = GrantedMessage | NextMessage

/** The lock was given to a waiter. */
interface GrantedMessage {
  readonly kind: 'granted'
  readonly tag: string
  readonly fence: bigint
  readonly ttlMs: number
  /** When, by the server's clock. */
  readonly storeMs: number
  readonly proven: (secret: string) => boolean
}

/** A waiter is now the first in line, behind a hold or claim of that length. */
interface NextMessage {
  readonly kind: 'next'
  readonly tag: string
  readonly claimMs: number
}

const granted = /^(granted ([\da-f]{32}) ([1-9]\d{0,18}) (\d{1,10}) (\d{1,16})) ([\da-f]{64})$/
const next = /^next ([\da-f]{32}) (\d{1,12})$/

/** `undefined` for any other text. */
export function readMessage(payload: string): Message | undefined {
  const first = next.exec(payload)
  if (first !== null) return { kind: 'next', tag: first[1] ?? '', claimMs: Number(first[2]) }
  const [, fields = '', tag = '', fence = '0', ttlMs, storeMs, proof = ''] = granted.exec(payload) ?? []
  if (fields === '' || BigInt(fence) > MAX_FENCE) return undefined
  return {
    kind: 'granted',
    tag,
    fence: BigInt(fence),
    ttlMs: Number(ttlMs),
    storeMs: Number(storeMs),
    proven: (secret) => timingSafeEqual(Buffer.from(proof), Buffer.from(proofOf(fields, secret))),
  }
}

/** What messages call an attempt. The attempt id itself is a secret, and every role can read messages. */
export function tagOf(attemptId: string): string {
  return sha256(attemptId).slice(0, 32)
}

/** The secret of one wait: known to the waiter and to the table of waiters. */
export function newSecret(): string {
  return randomBytes(16).toString('hex')
}

function proofOf(fields: string, secret: string): string {
  return sha256(secret + sha256(secret + fields))
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

const sqlSha256 = (text: string): string => `encode(sha256(convert_to(${text}, 'UTF8')), 'hex')`

/** The same in SQL, for the functions in the database. */
export const sqlTagOf = (attempt: string): string => `left(${sqlSha256(attempt)}, 32)`
export const sqlProofOf = (fields: string, secret: string): string =>
  sqlSha256(`${secret} || ${sqlSha256(`${secret} || ${fields}`)}`)
