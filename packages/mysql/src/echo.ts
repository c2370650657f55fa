import { randomInt } from 'node:crypto'
import type { Result } from './connection.ts'

// `mysql2` pairs replies with statements by their order. Statements that decide an outcome return a number of their
// call, so that the reply to another statement is recognised. A statement that writes can only return an insert id: its
// upper bits carry the number of the call, its lower bits a fence.

const FENCE_BITS = 52n
const ECHOES = 2 ** 11 - 1
const FENCES = (1n << FENCE_BITS) - 1n

/** The highest fence that fits beside an echo. */
export const MAX_FENCE: bigint = FENCES

export type Echo = string

let count = randomInt(ECHOES)

/** Differs from those of recent statements. */
export function newEcho(): Echo {
  count = (count + 1) % ECHOES
  return String(BigInt(count + 1) << FENCE_BITS)
}

/**
 * Whether a reply belongs to one statement. `unproven`: it may, but it has no row that could carry the echo. The next
 * statement on the same connection shows.
 */
export type Answers = (result: Result) => boolean | 'unproven'

/** For a statement that writes. */
export function wrote(echo: Echo): Answers {
  return (result) => (isOfNothing(result) ? 'unproven' : surelyWrote(echo)(result))
}

/** For a statement that writes, and always returns an echo. */
export function surelyWrote(echo: Echo): (result: Result) => boolean {
  return ({ insertId }) => insertId >> FENCE_BITS === BigInt(echo) >> FENCE_BITS
}

/** The number beside the echo; `undefined` when no row was changed. */
export function numberIn({ insertId }: Result): bigint | undefined {
  return insertId === 0n ? undefined : insertId & FENCES
}

/** For a statement that reads, with the echo as its first column. */
export function read(echo: Echo): Answers {
  return (result) => {
    if (isOfNothing(result)) return 'unproven'
    return result.rows.length > 0 && result.rows.every(([first]) => first === echo)
  }
}

function isOfNothing({ rows, insertId, affected }: Result): boolean {
  return rows.length === 0 && insertId === 0n && affected === 0
}
