import { createHash } from 'node:crypto'
import type { Place } from './options.ts'

const SIGN = -(2n ** 63n)

/**
 * The advisory lock of a name. A transaction that holds the name has it alone; holders of strategy `row` share it, and
 * exclude each other by their row. Negative, so that it is never the key of a hold.
 */
export function nameKeyOf({ schema, table }: Place, name: string): string {
  const digest = createHash('sha256').update(`${schema}.${table}\0${name}`).digest()
  return String(digest.readBigInt64BE() | SIGN)
}

/**
 * The advisory lock of a place. Transactions that hold names there share it while no strategy is recorded; to record
 * another one than `row` takes it alone. No name is empty, so it is never the lock of a name.
 */
export function placeKeyOf(place: Place): string {
  return nameKeyOf(place, '')
}
