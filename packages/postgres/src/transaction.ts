import { settleOptions } from '@locks/core/adapter'
import type { Duration } from '@locks/core/adapter'
import { inTurn, keyOf, strategyError, TransactionCall, transactionQuery } from '@locks/sql'
import type { TransactionLock, TransactionQuery } from '@locks/sql'
import { randomBytes } from 'node:crypto'
import { declared, transactionOptions } from './option-table.ts'
import type { Tables } from './options.ts'
import { errors, isDeadlock, isOfFailedTransaction } from './errors.ts'
import { transactionClients } from './transaction-clients.ts'
import { namesOf } from './sql.ts'
import { transactionSql } from './transaction-sql.ts'
import type { TransactionSql } from './transaction-sql.ts'

export type { TransactionLock, TransactionQuery } from '@locks/sql'

/** Where the tables are, and how long to wait. */
// <options LockInTransactionOptions transaction>
export interface LockInTransactionOptions {
  /** The schema of the tables. Default: `public`. */
  readonly schema?: string
  /** The table of locks. Names of further tables and functions begin with it. Default: `locks`. */
  readonly table?: string
  /** How long to wait for another holder. 0: do not wait. Default: 10 s. */
  readonly waitMs?: Duration
  /** Without tables, and without a fence: only the lock, also beside strategy `advisory`. Default: `false`. */
  readonly advisory?: boolean
}
// </options>

const { schema, table } = declared.options
const options = { adapter: declared.adapter, options: { schema, table, ...transactionOptions } }

/**
 * Locks `name` in an open transaction of the program, which then holds it until it ends: there is nothing to release.
 * It excludes all other transactions that lock the name so, and holders of strategy `row` on the same table. `ROLLBACK
 * TO SAVEPOINT` frees it too, if it was locked behind that savepoint.
 *
 * `tx` is a client of `pg` after BEGIN, the transaction of postgres.js, Drizzle, Kysely, Knex, Prisma or TypeORM, or a
 * function that runs one statement. It must be READ WRITE and READ COMMITTED: with any other isolation level it
 * would not see what the previous holder wrote. Rejects with `LOCK_TIMEOUT` when the name is still held after `waitMs`;
 * the transaction goes on without it. After any other error, roll it back.
 */
export function lockInTransaction(
  tx: TransactionQuery | object,
  name: string,
  options: LockInTransactionOptions & { readonly advisory: true },
): Promise<Omit<TransactionLock, 'fence'>>
export function lockInTransaction(
  tx: TransactionQuery | object,
  name: string,
  options?: LockInTransactionOptions,
): Promise<TransactionLock>
export async function lockInTransaction(
  tx: TransactionQuery | object,
  name: string,
  given: LockInTransactionOptions = {},
): Promise<Omit<TransactionLock, 'fence'> & { readonly fence?: bigint }> {
  const { waitMs, advisory, ...tables } = settleOptions(options, given)
  const key = keyOf(errors, 'name', name)
  const query = transactionQuery(errors, tx, transactionClients, 'a client of pg after BEGIN, postgres.js')
  const sql = transactionSql(tables, name, key)
  return inTurn(tx, async () => {
    const call = new TransactionCall(errors, query, name)
    if (advisory) {
      await lockedAdvisory(call, sql, waitMs).catch(failed)
      return { name }
    }
    const transaction = await locked(call, sql, tables, waitMs).catch(failed)
    return { name, fence: await minted(call, sql, transaction).catch(failed) }
  })
}

/** What a transaction is, according to its server. */
interface Taken {
  /** Its number. */
  readonly transaction: string
  readonly got: boolean
  readonly strategy: string
  /** Its `statement_timeout`. */
  readonly timeout: string
}

async function take(call: TransactionCall, sql: (nonce: string) => string, writes: boolean): Promise<Taken> {
  const [transaction = '', level, readOnly, got, strategy = '', ...timeout] = await call.ask(sql)
  if (level !== 'read-committed' && level !== 'read-uncommitted') throw wrongLevel(level)
  if (writes && readOnly === 't') throw isReadOnly()
  return { transaction, got: got === 't', strategy, timeout: timeout.join(' ') }
}

/** Locks the name. Resolves with the number of the transaction. */
async function locked(
  call: TransactionCall,
  sql: TransactionSql,
  tables: Tables,
  waitMs: number,
): Promise<string> {
  const first = await take(call, sql.take, true)
  const { transaction, timeout } = first
  const again = async (): Promise<Taken> => {
    const taken = await take(call, sql.takeLocked, true)
    if (taken.transaction !== transaction) throw notOpen()
    return taken
  }
  const tried = first.strategy === '-' ? await again() : first
  if (tried.strategy !== 'row' && tried.strategy !== '-')
    throw strategyError(errors, namesOf(tables), 'row', tried.strategy)
  if (tried.got) return transaction
  await assertSame(call, sql, transaction)
  if (waitMs > 0) {
    await unlimited(call, sql, timeout, sql.wait(waitMs))
    // The wait says nothing of its outcome. What it locked can be locked again.
    if ((await again()).got) return transaction
  }
  throw call.timedOut(waitMs)
}

/** Locks the name in the way of strategy `advisory` too, without the tables. */
async function lockedAdvisory(call: TransactionCall, sql: TransactionSql, waitMs: number): Promise<void> {
  const { transaction, timeout } = await take(call, sql.look, false)
  await assertSame(call, sql, transaction)
  const nonce = randomBytes(8).toString('hex')
  await unlimited(call, sql, waitMs === 0 ? '0' : timeout, sql.lockBoth(waitMs, nonce))
  const [same, left] = await call.ask(sql.lockedBoth)
  if (same !== transaction) throw notOpen()
  if (left !== nonce) throw call.timedOut(waitMs)
}

/** Runs a statement without the `statement_timeout` of the transaction. */
async function unlimited(
  call: TransactionCall,
  sql: TransactionSql,
  timeout: string,
  text: string,
): Promise<void> {
  if (timeout !== '0') await call.run(sql.limit('0'))
  await call.run(text)
  if (timeout !== '0') await call.run(sql.limit(timeout))
}

async function minted(call: TransactionCall, sql: TransactionSql, transaction: string): Promise<bigint> {
  for (const mint of [sql.mint, sql.mintFirst]) {
    const [same, fence] = await call.ask((nonce) => mint(nonce, transaction))
    if (same !== transaction) throw notOpen()
    if (fence !== undefined) return BigInt(fence)
  }
  throw errors.unavailable('the counter of the lock could not be raised; roll the transaction back')
}

/** Outside a transaction each statement is a transaction, with another number. */
async function assertSame(call: TransactionCall, sql: TransactionSql, transaction: string): Promise<void> {
  const [same] = await call.ask(sql.same)
  if (same !== transaction) throw notOpen()
}

function notOpen(): Error {
  return errors.invalid(
    'tx is not in a transaction, so the lock ended at once; run BEGIN first, and pass one connection',
  )
}

function isReadOnly(): Error {
  return errors.invalid(
    'the transaction is READ ONLY, so nothing was locked: a fence could not be stored; begin it READ WRITE',
  )
}

function wrongLevel(level = 'unknown'): Error {
  return errors.invalid(
    `the transaction is ${level.replace('-', ' ')}, so nothing was locked: it would not see what the previous holder ` +
      'wrote; begin it with ISOLATION LEVEL READ COMMITTED',
  )
}

function failed(error: unknown): never {
  if (isOfFailedTransaction(error))
    throw errors.invalid(
      'an earlier statement of this transaction failed, so nothing was locked; roll it back',
      error,
    )
  if (isDeadlock(error))
    throw errors.unavailable(
      'waiting would be a deadlock, so nothing was locked; roll the transaction back',
      error,
    )
  throw error
}
