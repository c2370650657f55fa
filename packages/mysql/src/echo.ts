import { randomInt } from 'node:crypto'
import type { Result } from './line.ts'

// `mysql2` pairs replies with statements by their order. Statements that decide an outcome send a number back, so that
// a reply to another statement is recognised. Statements that write have nothing to return but an insert id: it carries
// the number of the call in its upper bits, and a fence in the lower ones.

const FENCE_BITS = 52n
const ECHOES = 2 ** 11 - 1
const FENCES = (1n << FENCE_BITS) - 1n

/** The highest fence that fits beside an echo. */
export const HIGHEST_FENCE: bigint = FENCES

export type Echo = string

let count = randomInt(ECHOES)

/** Another one than those of the statements before. */
export function newEcho(): Echo {
  count = (count + 1) % ECHOES
  return String(BigInt(count + 1) << FENCE_BITS)
}

/**
 * Whether a reply is that to one statement. `unproven`: it may be, but there was no row to carry the echo. What follows
 * on the same connection tells.
 */
export type Answers = (result: Result) => boolean | 'unproven'

/** Of a statement that writes. */
export function wrote(echo: Echo): Answers {
  return (result) => (isOfNothing(result) ? 'unproven' : surelyWrote(echo)(result))
}

/** The same where there always is an echo. */
export function surelyWrote(echo: Echo): (result: Result) => boolean {
  return ({ insertId }) => insertId >> FENCE_BITS === BigInt(echo) >> FENCE_BITS
}

/** The number beside the echo; `undefined` when no row was changed. */
export function numberIn({ insertId }: Result): bigint | undefined {
  return insertId === 0n ? undefined : insertId & FENCES
}

/** Of a statement that reads, and has the echo as its first column. */
export function read(echo: Echo): Answers {
  return (result) => {
    if (isOfNothing(result)) return 'unproven'
    return result.rows.length > 0 && result.rows.every(([first]) => first === echo)
  }
}

function isOfNothing({ rows, insertId, affected }: Result): boolean {
  return rows.length === 0 && insertId === 0n && affected === 0
}
