import { hash, randomFillSync } from 'node:crypto'

const shape = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}:(?:0|[1-9]\d{0,18})$/
const NUMBER_AT = 37
const BELOW = 2n ** 63n

// Random numbers are drawn in bulk: one call to the system's generator costs more than the rest of a request.
const pool = new BigUint64Array(256)
let used = pool.length

/**
 * The id of a new attempt: the UUID of its client and a random number below 2^63. The number must not be guessable: for
 * a store the attempt id is proof of holding, and it makes a serialized lease a credential.
 */
export function newAttemptId(clientId: string): string {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  const drawn = pool[used] ?? 0n
  // A later leak of this memory must not reveal numbers in use.
  pool[used++] = 0n
  return `${clientId}:${BigInt.asUintN(63, drawn)}`
}

/** Whether `text` has the form of an attempt id. Check with it what comes from outside: messages and records. */
export function isAttemptId(text: unknown): text is string {
  if (typeof text !== 'string' || !shape.test(text)) return false
  // Only a number with 19 digits can be too high.
  return text.length < NUMBER_AT + 19 || BigInt(text.slice(NUMBER_AT)) < BELOW
}

/**
 * The id under which a store records a released hold whose name stays held for the rest of its `minHoldMs`, so that no
 * later call of the attempt matches it. It contains the attempt's secret number and its default owner, so a record
 * without an owner can still be read. No client has such an id: a random UUID has the digit 4 where this has 0.
 */
export function keptAttemptId(attemptId: string): string {
  const [client = '', digest = ''] = defaultOwner(attemptId).split('-')
  return `${client}-0000-0000-0000-${digest}${attemptId.slice(NUMBER_AT - 1)}`
}

/**
 * The owner of an acquire without an explicit one, for people to read. The attempt id cannot be computed from it. A
 * store may leave it out of its records and compute it when reading.
 */
export function defaultOwner(attemptId: string): string {
  if (attemptId.startsWith('-0000-0000-0000-', 8))
    return `${attemptId.slice(0, 8)}-${attemptId.slice(24, 36)}`
  return `${attemptId.slice(0, 8)}-${hash('sha256', attemptId).slice(0, 12)}`
}
