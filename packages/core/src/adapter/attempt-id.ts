import { hash, randomFillSync } from 'node:crypto'

const shape = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}:(?:0|[1-9]\d{0,18})$/
const NUMBER_AT = 37
const BELOW = 2n ** 63n

// One call to the system's generator serves many attempts: it costs more than all the rest of making a request.
const pool = new BigUint64Array(256)
let used = pool.length

/**
 * A new attempt of a client: its uuid and a random number below 2^63. The number must not be guessed: to a store the
 * attempt id is proof of holding, and the text of a serialised lease carries it as its secret.
 */
export function newAttemptId(clientId: string): string {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  const drawn = pool[used] ?? 0n
  // A later leak of this memory must not tell what was drawn from it.
  pool[used++] = 0n
  return `${clientId}:${BigInt.asUintN(63, drawn)}`
}

/** Whether `text` has the form of an attempt id. Check with it what comes from outside: a text, a message, a record. */
export function isAttemptId(text: unknown): text is string {
  if (typeof text !== 'string' || !shape.test(text)) return false
  // Only numbers of 19 digits can be too high.
  return text.length < NUMBER_AT + 19 || BigInt(text.slice(NUMBER_AT)) < BELOW
}

/**
 * Marks the record of a hold that was released and whose name stays taken for the rest of its `minHoldMs`: no call of
 * the attempt itself finds it any more. It carries the attempt's secret number and its default owner, from which a
 * record that leaves that owner out can be read as before. No client has such an id: a random UUID has a 4 in it there.
 */
export function keptAttemptId(attemptId: string): string {
  const [client = '', digest = ''] = defaultOwner(attemptId).split('-')
  return `${client}-0000-0000-0000-${digest}${attemptId.slice(NUMBER_AT - 1)}`
}

/**
 * The owner of an acquire without an explicit one. It tells attempts apart for people to read; the attempt id cannot
 * be computed from it. A store may leave this owner out of its records and compute it when reading.
 */
export function defaultOwner(attemptId: string): string {
  if (attemptId.startsWith('-0000-0000-0000-', 8))
    return `${attemptId.slice(0, 8)}-${attemptId.slice(24, 36)}`
  return `${attemptId.slice(0, 8)}-${hash('sha256', attemptId).slice(0, 12)}`
}
