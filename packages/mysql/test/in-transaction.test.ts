import { lockInTransaction } from '@locks/mysql/transaction'
import { join } from 'node:path'
import { createConnection as createCallbackConnection, createPool as createCallbackPool } from 'mysql2'
import { createConnection, createPool } from 'mysql2/promise'
import type { Connection, RowDataPacket } from 'mysql2/promise'
import { expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { inTransactionTests } from '../../sql/test/support/in-transaction-tests.ts'
import type { Session } from '../../sql/test/support/in-transaction-tests.ts'
import { open, startServer } from './support/setup.ts'

const server = await startServer()

async function connect(): Promise<Session & { readonly tx: Connection }> {
  const connection = await createConnection(server.url)
  connection.on('error', () => undefined)
  onTestFinished(() => connection.destroy())
  const run = async (sql: string): Promise<unknown> => {
    const [rows] = await connection.query<RowDataPacket[][]>({ sql, rowsAsArray: true })
    return Array.isArray(rows) ? rows[0]?.[0] : undefined
  }
  return { tx: connection, run, drop: () => connection.destroy() }
}

inTransactionTests({
  url: server.url,
  lockInTransaction,
  connect,
  open,
  holding: { file: join(import.meta.dirname, 'in-transaction.fixture.mjs'), url: server.url },
  notTransactions: () => [createPool(server.url), createCallbackPool(server.url)],
})

test('a connection with callbacks works too', async () => {
  const connection = createCallbackConnection(server.url)
  onTestFinished(() => connection.destroy())
  await connection.promise().beginTransaction()
  expect(await lockInTransaction(connection, 'callbacks')).toMatchObject({ name: 'callbacks' })
  await connection.promise().commit()
})

test('without autocommit no BEGIN is needed', async () => {
  const [implicit, other] = [await connect(), await connect()]
  await implicit.run('SET autocommit = 0')
  await lockInTransaction(implicit.tx, 'implicit')
  await other.run('BEGIN')
  await expect(lockInTransaction(other.tx, 'implicit', { waitMs: 0 })).rejects.toMatchObject({
    code: 'LOCK_TIMEOUT',
  })
  await implicit.run('COMMIT')
  await lockInTransaction(other.tx, 'implicit', { waitMs: 0 })
})

test('a transaction that read first and missed the previous holder is refused under REPEATABLE READ', async () => {
  const [holder, late] = [await connect(), await connect()]
  for (const { run } of [holder, late]) await run('BEGIN')
  await lockInTransaction(holder.tx, 'stale')
  await late.run('SELECT * FROM locks_holders LIMIT 1')
  await holder.run('COMMIT')
  await expect(lockInTransaction(late.tx, 'stale')).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
    message: expect.stringContaining('take the lock first') as unknown,
  })
  await late.run('ROLLBACK')
  await late.run('SET TRANSACTION ISOLATION LEVEL READ COMMITTED')
  await late.run('BEGIN')
  await late.run('SELECT * FROM locks_holders LIMIT 1')
  await holder.run('BEGIN')
  await lockInTransaction(holder.tx, 'stale')
  await holder.run('COMMIT')
  await lockInTransaction(late.tx, 'stale')
  await late.run('COMMIT')
})

test('a new name that is rolled back passes to its waiters; one that the server picks for a deadlock runs again', async () => {
  const sessions = await Promise.all([1, 2, 3, 4, 5].map(connect))
  const turn = async ({ tx, run }: Session): Promise<void> => {
    await run('BEGIN')
    try {
      await lockInTransaction(tx, 'new', { waitMs: scaled(20_000) })
    } catch (error) {
      if (!String(error).includes('deadlock')) throw error
      return turn({ tx, run, drop: () => undefined })
    }
    await run('ROLLBACK')
  }
  const [first = await connect(), ...others] = sessions
  await first.run('BEGIN')
  await lockInTransaction(first.tx, 'new')
  const turns = others.map(turn)
  await first.run('ROLLBACK')
  await Promise.all(turns)
})
