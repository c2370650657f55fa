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

/** Whether a statement that writes has answered, or changed no row, for which there is no echo. */
export function wrote(echo: Echo): (result: Result) => boolean {
  return ({ insertId, affected }) =>
    insertId >> FENCE_BITS === BigInt(echo) >> FENCE_BITS || (insertId === 0n && affected === 0)
}

/** The same where there always is an echo. */
export function surelyWrote(echo: Echo): (result: Result) => boolean {
  return (result) => result.insertId !== 0n && wrote(echo)(result)
}

/** The number beside the echo; `undefined` when no row was changed. */
export function numberIn({ insertId }: Result): bigint | undefined {
  return insertId === 0n ? undefined : insertId & FENCES
}

/** Whether the rows are those that a statement asked for. */
export function read(echo: Echo): (result: Result) => boolean {
  return ({ rows, insertId, affected }) =>
    insertId === 0n && affected === 0 && rows.every(([first]) => first === echo)
}
