import type { Clock, Pruned } from '@locks/core/adapter'
import { PRUNE_BATCH, retried } from '@locks/sql'
import { errors } from './errors.ts'
import type { Cell, Result, Values } from './connection.ts'
import type { Strategy } from './option-table.ts'
import type { Tables } from './options.ts'
import type { Runner } from './runner.ts'
import { namesOf } from './schema.ts'
import { now, onItsOwn } from './sql.ts'

type Query = (text: string, values?: Values) => Promise<Result>

/** Rows of free names that were last granted more than `idleMs` ago. */
function over(table: string, strategy: Strategy, idleMs: number): string {
  const old = (column: string): string =>
    `${table}.${column} < ${now} - INTERVAL ${idleMs} * 1000 MICROSECOND`
  return strategy === 'unique-key'
    ? `${old('since')} AND (${table}.attempt IS NULL OR ${old('blocked_until')})`
    : `${old('since')} AND IS_USED_LOCK(${table}.hold) IS NULL`
}

/**
 * By the key, row by row: a scan would wait for locked rows on its way. Without an alias, which would need a default
 * database.
 */
const among = (table: string): string => `JSON_TABLE(?, '$[*]' COLUMNS (name VARCHAR(2048) PATH '$')) r
STRAIGHT_JOIN ${table} FORCE INDEX (PRIMARY) ON ${table}.name = UNHEX(r.name)`

const named = (table: string): string => `${onItsOwn('DELETE')} ${table} FROM ${among(table)}`

/**
 * Deletes a batch of the counters of one strategy. Their highest fence is stored before the first of them is deleted:
 * the statement that makes a counter again reads it under a lock, and counters above it are not deleted.
 */
export async function pruneCounters(
  runner: Pick<Runner, 'look' | 'run'>,
  tables: Tables,
  strategy: Strategy,
  idleMs: number,
  names?: readonly string[],
): Promise<Pruned> {
  const to = namesOf(tables)
  const table = { 'unique-key': to.locks, row: to.holders, named: to.named }[strategy]
  const idle = over(table, strategy, idleMs)
  const from = names === undefined ? table : among(table)
  const find = `SELECT ?, HEX(${table}.name), ${table}.fence FROM ${from} WHERE ${idle} LIMIT ${PRUNE_BATCH}`
  const found = await runner.look(find, names && [hexOf(names)])
  if (found.length === 0) return { pruned: 0, more: false }
  // A transaction of the program may hold a name for long. Its counter looks as idle as before until it commits.
  const skip = `SELECT ?, HEX(${table}.name), ${table}.fence FROM ${among(table)} WHERE ${idle} FOR UPDATE SKIP LOCKED`
  const unlocked = await runner.look(skip, [namesIn(found)])
  if (unlocked.length === 0) return { pruned: 0, more: false }
  const highest = unlocked.reduce((most, [, fence]) => (numberOf(fence) > most ? numberOf(fence) : most), 0n)
  const raise = `UPDATE ${to.pruned} SET fence = ? WHERE id = 1 AND fence < ?`
  await runner.run(raise, [String(highest), String(highest)])
  const kept = `(SELECT p.fence FROM ${to.pruned} p WHERE p.id = 1)`
  const remove = `${named(table)} WHERE ${idle} AND ${table}.fence <= ${kept}`
  const { affected } = await runner.run(remove, [namesIn(unlocked)])
  return { pruned: affected, more: found.length === PRUNE_BATCH && affected > 0 }
}

/**
 * Deletes a batch of the rows of strategy `row` that have no counter. Locked rows have a holder and are skipped; a
 * deleted row that is needed after all is made again. Returns whether there may be more.
 */
export function pruneRows(
  query: Query,
  tables: Tables,
  clock: Clock,
  names?: readonly string[],
): Promise<boolean> {
  const to = namesOf(tables)
  const from = names === undefined ? to.rows : among(to.rows)
  const unused = `SELECT HEX(${to.rows}.name) FROM ${from}
WHERE NOT EXISTS (SELECT 1 FROM ${to.holders} h WHERE h.name = ${to.rows}.name)
LIMIT ${PRUNE_BATCH} FOR UPDATE SKIP LOCKED`
  const some = async (): Promise<boolean> => {
    await query('START TRANSACTION')
    try {
      const { rows } = await query(unused, names && [hexOf(names)])
      if (rows.length > 0) await query(named(to.rows), [namesIn(rows)])
      return rows.length === PRUNE_BATCH
    } finally {
      await query('COMMIT')
    }
  }
  return retried(some, errors, clock)()
}

function hexOf(names: readonly string[]): string {
  return JSON.stringify(names.map((name) => Buffer.from(name).toString('hex')))
}

function namesIn(rows: readonly (readonly Cell[])[]): string {
  return JSON.stringify(rows.map(([name]) => name))
}

function numberOf(fence: Cell): bigint {
  return BigInt(fence ?? 0)
}
