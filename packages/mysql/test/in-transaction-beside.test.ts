import { isLockError } from '@locks/core'
import { inTime } from '@locks/core/conformance'
import { migrate, prune } from '@locks/mysql'
import { lockInTransaction } from '@locks/mysql/transaction'
import type { TransactionQuery } from '@locks/mysql/transaction'
import { createConnection } from 'mysql2/promise'
import type { Connection } from 'mysql2/promise'
import { expect, onTestFinished, test } from 'vitest'
import { startService } from '../../../conformance/services/index.ts'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { cell, connect, open, startServer } from './support/setup.ts'

// A lock in a transaction, beside clients of the strategies and beside other locks of it.

const server = await startServer()
const { url } = server
const row = { url, strategy: 'row' }
const waitMs = scaled(20_000)

async function begun(level?: string): Promise<Connection> {
  const connection = await connect(server)
  if (level !== undefined) await connection.query(`SET SESSION TRANSACTION ISOLATION LEVEL ${level}`)
  await connection.query('BEGIN')
  return connection
}

/** The error of one server under the number of another: only MariaDB is here. */
function errorOf(errno: number, message: string): Error {
  return Object.assign(new Error(message), { errno, code: `ER_${errno}` })
}

/** MariaDB, introduced as MySQL. Fails a statement that contains `broken`. */
function asMysql(connection: Connection, broken?: string, error?: Error): TransactionQuery {
  return async (sql) => {
    if (broken !== undefined && error !== undefined && sql.includes(broken)) throw error
    const [rows] = await connection.query(sql)
    const [first]: unknown[] = Array.isArray(rows) ? rows : []
    if (typeof first !== 'object' || first === null || !('reply' in first)) return rows
    return [{ reply: String(first.reply).replace(' mariadb ', ' mysql ') }]
  }
}

test('while a transaction holds a name, no other strategy takes the table; then it can', async () => {
  const connection = await begun()
  await lockInTransaction(connection, 'undecided')
  for (const strategy of ['unique-key', 'named']) {
    const refusal: unknown = await open({ url, strategy }, { retry: { attempts: 1 } })
      .lock('undecided')
      .tryAcquire()
      .catch((error: unknown) => error)
    expect(isLockError(refusal, 'LOCK_UNAVAILABLE')).toBe(true)
    expect(String(refusal)).toContain('transaction')
  }
  const second = await begun()
  await lockInTransaction(second, 'another name', { waitMs: 0 })
  await second.query('COMMIT')
  expect(await open(row).lock('undecided').tryAcquire()).toBeNull()
  await connection.query('ROLLBACK')
  await open(row).with('undecided', () => undefined)
  await expect(open({ url }).lock('undecided').tryAcquire()).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
  })
})

test('of a transaction and a client of unique-key that start at once, never do both get the name', async () => {
  const [connection, control] = [await connect(server), await connect(server)]
  for (let round = 0; round < 20; round += 1) {
    await control.query('DELETE FROM locks_strategy')
    await connection.query('BEGIN')
    const name = `race ${round}`
    const outcomes = await Promise.all([
      lockInTransaction(connection, name).catch((error: unknown) => error),
      open({ url }, { storeTimeoutMs: 200 })
        .lock(name)
        .tryAcquire()
        .catch((error: unknown) => error),
    ])
    expect(outcomes.some((outcome) => outcome instanceof Error)).toBe(true)
    await connection.query('ROLLBACK')
  }
})

test('tables without the row that guards the strategy are refused', async () => {
  const [connection, control] = [await begun(), await connect(server)]
  await control.query('DELETE FROM locks_pruned WHERE id = 2')
  onTestFinished(async () => void (await control.query('INSERT INTO locks_pruned VALUES (2, 0)')))
  await expect(lockInTransaction(connection, 'old tables')).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
    message: expect.stringContaining('locks migrate') as unknown,
  })
  await connection.query('ROLLBACK')
})

test('a later lock whose name another transaction has had since the first is refused, and says why', async () => {
  const [connection, other] = [await begun(), await begun()]
  await lockInTransaction(other, 'second')
  await lockInTransaction(connection, 'first')
  await other.query('COMMIT')
  await expect(lockInTransaction(connection, 'second')).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
    message: expect.stringMatching(/an earlier lock.*READ COMMITTED/) as unknown,
  })
  await connection.query('ROLLBACK')
})

test.for(['REPEATABLE READ', 'READ COMMITTED'])(
  'under %s a second lock after a holder of row is refused or sees what that wrote',
  async (level) => {
    const locks = open(row)
    const connection = await begun(level)
    const writer = await connect(server)
    await writer.query('CREATE TABLE IF NOT EXISTS written (n int NOT NULL)')
    await writer.query('DELETE FROM written')
    const lease = await locks.lock('then of row').acquire()
    await lockInTransaction(connection, 'first')
    await writer.query('INSERT INTO written VALUES (7)')
    await lease.release()
    const second = lockInTransaction(connection, 'then of row')
    if (level === 'REPEATABLE READ')
      await expect(second).rejects.toMatchObject({
        code: 'LOCK_INVALID_ARGUMENT',
        message: expect.stringContaining('READ COMMITTED') as unknown,
      })
    else {
      await second
      expect(await cell(connection, 'SELECT n FROM written')).toBe('7')
    }
    await connection.query('ROLLBACK')
    await connection.query('BEGIN')
    await lockInTransaction(connection, 'then of row')
    await connection.query('ROLLBACK')
  },
)

test('many clients that inspect a free name do not see a holder', async () => {
  await open(row).with('looked at', () => undefined)
  const clients = Array.from({ length: 16 }, () => open(row))
  for (let round = 0; round < 60; round += 1) {
    const seen = await Promise.all(clients.map((locks) => locks.inspect('looked at')))
    expect(seen.filter(({ held }) => held)).toEqual([])
  }
})

test('SERIALIZABLE is refused, and locks nothing', async () => {
  const [connection, other] = [await begun('SERIALIZABLE'), await begun()]
  await expect(lockInTransaction(connection, 'serializable')).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
    message: expect.stringContaining('SERIALIZABLE') as unknown,
  })
  await lockInTransaction(other, 'serializable', { waitMs: 0 })
  await other.query('ROLLBACK')
})

test('a READ ONLY transaction is refused at once', async () => {
  const [holder, connection] = [await begun(), await connect(server)]
  await lockInTransaction(holder, 'read only')
  await connection.query('START TRANSACTION READ ONLY')
  await expect(lockInTransaction(connection, 'read only')).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
    message: expect.stringContaining('READ ONLY') as unknown,
  })
  await connection.query('ROLLBACK')
  await holder.query('ROLLBACK')
})

test('ROLLBACK TO SAVEPOINT frees a new name that was locked behind it', async () => {
  const [connection, other] = [await begun('READ COMMITTED'), await begun()]
  await lockInTransaction(connection, 'before it')
  await connection.query('SAVEPOINT early')
  await lockInTransaction(connection, 'behind it')
  await connection.query('ROLLBACK TO SAVEPOINT early')
  await lockInTransaction(other, 'behind it', { waitMs: 0 })
  await expect(lockInTransaction(other, 'before it', { waitMs: 0 })).rejects.toMatchObject({
    code: 'LOCK_TIMEOUT',
  })
  await connection.query('ROLLBACK')
  await other.query('ROLLBACK')
})

test('locks that one transaction asks for at once are taken one after the other', async () => {
  const connection = await begun('READ COMMITTED')
  const tx = asMysql(connection)
  const names = ['at once 1', 'at once 2', 'at once 3']
  const all = await Promise.all(names.map((name) => lockInTransaction(tx, name)))
  expect(all.map(({ name }) => name)).toEqual(names)
  await connection.query('ROLLBACK')
})

test('a SAVEPOINT that cannot be prepared is refused by what to do', async () => {
  const connection = await begun()
  const prepared = asMysql(connection, 'SAVEPOINT', errorOf(1295, 'not in the prepared protocol yet'))
  await expect(lockInTransaction(prepared, 'prepared')).rejects.toMatchObject({
    code: 'LOCK_UNSUPPORTED',
    message: expect.stringContaining('prepare') as unknown,
  })
  await connection.query('ROLLBACK')
})

test('a wait that ends with its transaction rejects with that error, not with that of the clean-up', async () => {
  const connection = await begun()
  const gone = errorOf(1, 'the transaction was closed')
  let closed = false
  const query = asMysql(connection)
  const tx: TransactionQuery = async (sql) => {
    closed ||= sql.includes('ON DUPLICATE KEY')
    if (closed) throw sql.startsWith('SET') ? errorOf(2, 'this one too') : gone
    return query(sql)
  }
  const error: unknown = await lockInTransaction(tx, 'closed').catch((reason: unknown) => reason)
  expect(String(error)).toContain('the transaction was closed')
  await connection.query('ROLLBACK')
})

test('with innodb_rollback_on_timeout a time-out says that the transaction is over, if it is', async () => {
  await using service = await startService('mariadb', { settings: { 'innodb-rollback-on-timeout': 'ON' } })
  const strict = service.server('mariadb')
  await migrate({ url: strict.url })
  const [holder, late] = [await createConnection(strict.url), await createConnection(strict.url)]
  await holder.query('CREATE TABLE written (n int NOT NULL)')
  for (const connection of [holder, late]) await connection.query('BEGIN')
  await lockInTransaction(holder, 'strict')
  for (const [ms, rows, message] of [
    [1_000, '1', 'goes on'],
    [0, '0', 'rolled the transaction back'],
  ] as const) {
    await late.query('INSERT INTO written VALUES (7)')
    await expect(lockInTransaction(late, 'strict', { waitMs: ms })).rejects.toMatchObject({
      code: 'LOCK_TIMEOUT',
      message: expect.stringContaining(message) as unknown,
    })
    expect(await cell(late, 'SELECT COUNT(*) FROM written')).toBe(rows)
    if (rows === '1') await late.query('DELETE FROM written')
  }
  for (const connection of [holder, late]) await connection.end()
})

test('prune passes over names that transactions hold, at once', async () => {
  const connection = await begun()
  for (const name of ['held', 'idle']) {
    await lockInTransaction(connection, name)
    await connection.query('COMMIT')
    await connection.query('BEGIN')
  }
  await prune({ url }, 0)
  for (const name of ['held', 'idle']) {
    await lockInTransaction(connection, name)
    await connection.query('COMMIT')
    await connection.query('BEGIN')
  }
  await lockInTransaction(connection, 'held')
  expect(await inTime('a prune', 900, prune({ url }, 0))).toBe(1)
  await connection.query('COMMIT')
})

test.for(['REPEATABLE READ', 'READ COMMITTED'])(
  'under %s the waiter for a new name that is rolled back keeps other new names waiting, and no others',
  async (level) => {
    const [first, waiter, other] = [await begun(level), await begun(level), await begun('READ COMMITTED')]
    const control = await connect(server)
    const name = (letter: string): string => `${letter}, ${level}`
    await lockInTransaction(other, name('used'))
    await other.query('COMMIT')
    await lockInTransaction(first, name('rolled back'))
    const turn = lockInTransaction(waiter, name('rolled back'), { waitMs })
    turn.catch(() => undefined)
    const status = "information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Innodb_row_lock_current_waits'"
    const waits = `SELECT VARIABLE_VALUE FROM ${status}`
    await eventually('it waits', async () => (await cell(control, waits)) === '1')
    await first.query('ROLLBACK')
    await turn
    await other.query('BEGIN')
    await lockInTransaction(other, name('used'), { waitMs: 0 })
    const another = lockInTransaction(other, name('new'), { waitMs: 0 })
    await expect(another).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' })
    await waiter.query('ROLLBACK')
    await lockInTransaction(other, name('new'), { waitMs: 0 })
    await other.query('ROLLBACK')
  },
)
