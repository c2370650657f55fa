import { createLocks, isLockError } from '@locks/core'
import { admitFence, fenced, fromConfig, migrate, migrationSql, prune } from '@locks/mysql'
import fc from 'fast-check'
import { createPool } from 'mysql2/promise'
import type { ResultSetHeader } from 'mysql2/promise'
import { expect, onTestFinished, test } from 'vitest'
import { atLength } from '../../../conformance/selection.ts'
import { scaled } from '../../../conformance/services/timing.ts'
import { sqlTableTests } from '../../sql/test/support/table-tests.ts'
import { cell, connect, open, startServer } from './support/setup.ts'

const server = await startServer()
const strategies = ['unique-key', 'row', 'named']

const nasty = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 60 }),
  fc.constantFrom(
    "'; DROP TABLE locks; --",
    '`; DROP TABLE locks; --',
    "\\'; SELECT SLEEP(10) #",
    '\0',
    '?',
    '%s',
    '\\',
  ),
)
const text = nasty.filter((value) => !/\p{Surrogate}/u.test(value) && Buffer.byteLength(value) <= 200)

test.each(strategies)(
  '%s: names, owners and labels are values, whatever they contain',
  async (strategy) => {
    const control = await connect(server)
    const tables =
      "SELECT GROUP_CONCAT(table_name ORDER BY table_name) FROM information_schema.tables WHERE table_schema = 'locks'"
    const before = await cell(control, tables)
    const [locks, other] = [open({ url: server.url, strategy }), open({ url: server.url, strategy })]
    await fc.assert(
      fc.asyncProperty(text, text, text, async (name, owner, label) => {
        const lease = await locks.lock(name).acquire({ owner, label })
        const { holder } = await other.inspect(name)
        expect([holder?.owner, holder?.metadata?.label, holder?.fence]).toEqual([owner, label, lease.fence])
        expect(await other.lock(name).tryAcquire()).toBeNull()
        await lease.release()
        expect((await other.inspect(name)).held).toBe(false)
      }),
      { numRuns: atLength(15, 60) },
    )
    expect(await cell(control, tables)).toBe(before)
  },
  scaled(60_000),
)

test('schema, table and column names are plain words or refused, and nothing is sent', async () => {
  const word = /^[A-Za-z_][A-Za-z0-9_]{0,47}$/
  const refused = (act: () => unknown): void => {
    try {
      act()
    } catch (error) {
      expect(isLockError(error, 'LOCK_INVALID_ARGUMENT')).toBe(true)
      return
    }
    throw new Error('accepted')
  }
  fc.assert(
    fc.property(
      nasty.filter((value) => !word.test(value)),
      (value) => {
        refused(() => migrationSql({ schema: value }))
        refused(() => migrationSql({ table: value }))
        refused(() => fenced(1n, value))
      },
    ),
  )
  for (const url of [
    'mysql://%zz@h/db',
    'mysql://u:s3cret%zz@h/db',
    'http://h',
    'mysql://h/db?strategi=row',
    'x',
  ])
    refused(() => fromConfig({ url }))
  const bad = migrate({ url: server.url, table: 'a`; DROP TABLE locks; --' })
  await expect(bad).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
})

sqlTableTests({ server, strategies, open, migrate, prune, elsewhere: { schema: 'locks_b', table: 'select' } })

test('a guarded UPDATE refuses a stale holder: stock is sold once', async () => {
  const control = await connect(server)
  await control.query(
    'CREATE TABLE stock (item VARCHAR(20) PRIMARY KEY, amount INT NOT NULL, fence BIGINT NOT NULL DEFAULT 0)',
  )
  await control.query("INSERT INTO stock (item, amount) VALUES ('book', 1)")
  const sell = async (fence: bigint): Promise<number> => {
    const { set, where, value } = fenced(fence)
    const update = `UPDATE stock SET amount = amount - 1, ${set} WHERE item = ? AND amount > 0 AND ${where}`
    const [{ affectedRows }] = await control.execute<ResultSetHeader>(update, [value, 'book', value])
    return affectedRows
  }
  expect(await sell(7n)).toBe(1)
  await control.query("UPDATE stock SET amount = 1 WHERE item = 'book'")
  expect(await sell(6n)).toBe(0)
  expect(await sell(7n)).toBe(1)
})

test('without a column, a fence is checked in the transaction that writes', async () => {
  const [old, next] = [await connect(server), await connect(server)]
  await next.beginTransaction()
  await admitFence(next, "file:'; --", 9n)
  await old.beginTransaction()
  const stale = expect(admitFence(old, "file:'; --", 8n)).rejects.toMatchObject({ code: 'LOCK_LOST' })
  await next.commit()
  await stale
  await old.rollback()
  await admitFence(old, "file:'; --", 9n)
})

test('a resource is identified by all of its bytes, or refused', async () => {
  const connection = await connect(server)
  await connection.query("SET SESSION sql_mode = ''")
  for (const resource of ['', '\ud800', 'x'.repeat(1_025)])
    await expect(admitFence(connection, resource, 1n)).rejects.toMatchObject({
      code: 'LOCK_INVALID_ARGUMENT',
    })
  await fc.assert(
    fc.asyncProperty(text, text, async (one, other) => {
      await admitFence(connection, `${one}:a`, 9n)
      await admitFence(connection, `${other}:B`, 1n)
      await expect(admitFence(connection, `${one}:a`, 8n)).rejects.toMatchObject({ code: 'LOCK_LOST' })
    }),
    { numRuns: atLength(10, 40) },
  )
})

test('a holder survives a pool with a smaller character set', async () => {
  const pool = createPool({ uri: server.url, charset: 'latin1', connectionLimit: 2 })
  onTestFinished(() => pool.end())
  const other = open({ url: server.url })
  const locks = createLocks(fromConfig({ pool }))
  onTestFinished(() => locks.close())
  const lease = await locks.lock('schloß 🔒').acquire({ owner: 'Łukasz 🙂' })
  expect((await other.inspect('schloß 🔒')).holder?.owner).toBe('Łukasz 🙂')
  expect((await locks.list()).map(({ name }) => name)).toContain('schloß 🔒')
  await lease.release()
})
