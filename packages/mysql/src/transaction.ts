import { settleOptions } from '@locks/core/adapter'
import type { Duration } from '@locks/core/adapter'
import { inTurn, keyOf, MIGRATE, strategyError, TransactionCall, transactionQuery } from '@locks/sql'
import type { TransactionLock, TransactionQuery } from '@locks/sql'
import { errors } from './errors.ts'
import { declared, transactionOptions } from './option-table.ts'
import type { Tables } from './options.ts'
import { namesOf } from './schema.ts'
import { transactionClients } from './transaction-clients.ts'
import { transactionSql } from './transaction-sql.ts'
import type { TransactionSql } from './transaction-sql.ts'

export type { TransactionLock, TransactionQuery } from '@locks/sql'

/** Where the tables are, and how long to wait. */
// <options LockInTransactionOptions transaction>
export interface LockInTransactionOptions {
  /** The database of the tables. Default: that of the connection. */
  readonly schema?: string
  /** The table of locks. Names of further tables begin with it. Default: `locks`. */
  readonly table?: string
  /** How long to wait for another holder; MySQL rounds up to seconds. 0: do not wait. Default: 10 s. */
  readonly waitMs?: Duration
}
// </options>

const { schema, table } = declared.options
const options = { adapter: declared.adapter, options: { schema, table, ...transactionOptions } }

/** The wait was too long for `innodb_lock_wait_timeout`, or for `max_statement_time` of MariaDB. */
const tooLong = new Set([1205, 1969])
const waitedTooLong = new Set([1205])
const deadlock = new Set([1213])
/** The row has changed since the snapshot: `innodb_snapshot_isolation` of MariaDB. */
const changed = new Set([1020])
const noSavepoint = new Set([1305])
const notPrepared = new Set([1295])
const readOnly = new Set([1792])

/**
 * Locks `name` in an open transaction of the program, which then holds it until it ends: there is nothing to release.
 * It excludes all other transactions that lock the name so, and holders of strategy `row` on the same table. `ROLLBACK
 * TO SAVEPOINT` frees a new name too, if it was locked behind that savepoint.
 *
 * `tx` is a connection of `mysql2` after BEGIN, the transaction of Drizzle, Kysely, Knex, Prisma or TypeORM, or a
 * function that runs one statement. Call this first in the transaction: under REPEATABLE READ, the default, a
 * transaction that has read something before, or holds another lock, may not see what the previous holder wrote.
 * Rejects with `LOCK_TIMEOUT` when the name is still held after `waitMs`; the transaction goes on without it. After any
 * other error, roll it back.
 */
export async function lockInTransaction(
  tx: TransactionQuery | object,
  name: string,
  given: LockInTransactionOptions = {},
): Promise<TransactionLock> {
  const { waitMs, ...tables } = settleOptions(options, given)
  const key = keyOf(errors, 'name', name)
  const query = transactionQuery(errors, tx, transactionClients, 'a connection of mysql2 after BEGIN')
  const sql = transactionSql(tables, key)
  const call = new TransactionCall(errors, query, name)
  const locked = async (): Promise<TransactionLock> => {
    const level = await lock(call, sql, waitMs)
    return { name, fence: await minted(call, sql, tables, level) }
  }
  return inTurn(tx, () => locked().catch(failed))
}

/** Locks the name. Resolves with the isolation level, as far as the server shows it. */
async function lock(call: TransactionCall, sql: TransactionSql, waitMs: number): Promise<string> {
  const [server, open, level = '', endsOnTimeout, waitS] = await call.ask(sql.look)
  if (level === 'SERIALIZABLE') throw serializable()
  const isMariaDb = server === 'mariadb'
  if (isMariaDb ? open !== '1' : !(await hasSavepoints(call, sql))) throw notOpen()
  const limited = async (seconds: number): Promise<void> => {
    if (!isMariaDb) await call.run(sql.patience(seconds))
  }
  await limited(Math.max(1, Math.ceil(waitMs / 1_000)))
  try {
    await call.run(sql.lock(waitMs))
  } catch (error) {
    // A library that has closed the transaction refuses this too, and the error of the wait says more.
    await limited(Number(waitS)).catch(() => undefined)
    if (!errors.has(error, tooLong)) throw error
    throw call.timedOut(waitMs, isOn(endsOnTimeout) && errors.has(error, waitedTooLong))
  }
  await limited(Number(waitS))
  return level
}

/** MariaDB writes some settings as words, MySQL as numbers. */
function isOn(setting: string | undefined): boolean {
  return setting === 'ON' || setting === '1'
}

/** Outside a transaction a savepoint is gone at once. */
async function hasSavepoints(call: TransactionCall, sql: TransactionSql): Promise<boolean> {
  try {
    await call.run(sql.savepoint)
    await call.run(sql.releaseSavepoint)
    return true
  } catch (error) {
    if (errors.has(error, noSavepoint)) return false
    if (errors.has(error, notPrepared)) throw prepared(error)
    throw error
  }
}

/** The lock is had, so only this transaction raises the counter. */
async function minted(
  call: TransactionCall,
  sql: TransactionSql,
  tables: Tables,
  level: string,
): Promise<bigint> {
  const words = await call.ask(sql.counter)
  const [strategy = '-', last = '', floor = '', clock = '', isGuarded, afterRow] = words
  if (isGuarded !== '1')
    throw errors.invalid(`the tables have another version, so nothing was locked; ${MIGRATE}`)
  if (strategy !== 'row' && strategy !== '-') throw strategyError(errors, namesOf(tables), 'row', strategy)
  const sees = level === 'READ-COMMITTED' || level === 'READ-UNCOMMITTED'
  // A holder of row counts first and writes then, so its counter does not show that this transaction missed something.
  if (!sees && afterRow === '1' && (await call.ask(sql.isMarked))[0] === '1') throw stale()
  const next = BigInt(floor) + 1n
  const fence = next > BigInt(clock) ? next : BigInt(clock)
  let attempt = ''
  await call.run(sql.mint(fence, last, (id) => (attempt = id)))
  const [by, stored] = await call.ask(sql.minted)
  if (by !== attempt || stored !== String(fence)) throw stale()
  if (!sees) await call.run(sql.mark)
  return fence
}

function failed(error: unknown): never {
  if (errors.has(error, changed)) throw stale(error)
  if (errors.has(error, readOnly))
    throw errors.invalid('the transaction is READ ONLY, so nothing was locked; begin it READ WRITE', error)
  if (!errors.has(error, deadlock)) throw error
  throw errors.unavailable(
    'a deadlock, so nothing is locked; the server has rolled the transaction back, run it again',
    error,
  )
}

function serializable(): Error {
  return errors.invalid(
    'transactions are SERIALIZABLE here, so nothing was locked: every read would lock what it reads, and others ' +
      'would wait for it; begin it with READ COMMITTED',
  )
}

function prepared(cause: unknown): Error {
  return errors.unsupported(
    'tx prepares its statements, which MySQL does not do with SAVEPOINT, so nothing was locked; pass a function that ' +
      'runs a statement without preparing it, such as (sql) => connection.query(sql)',
    cause,
  )
}

function notOpen(): Error {
  return errors.invalid(
    'tx is not in a transaction, so nothing was locked; run START TRANSACTION first, and pass one connection',
  )
}

/** The counter as this transaction sees it is not the counter as it is. */
function stale(cause?: unknown): Error {
  return errors.invalid(
    'the transaction may not see what the previous holder wrote: it sees the data as of its first read, which came ' +
      'before this lock, by itself or with an earlier lock; roll it back, and take the lock first and only one, or ' +
      'use SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED before you begin it',
    cause,
  )
}
