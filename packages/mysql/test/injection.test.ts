import { createLocks, isLockError } from '@locks/core'
import { admitFence, fenced, fromConfig, migrate, migrationSql, prune } from '@locks/mysql'
import fc from 'fast-check'
import { createPool } from 'mysql2/promise'
import type { ResultSetHeader } from 'mysql2/promise'
import { expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { cell, connect, open, startServer } from './setup.ts'

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
  '%s: names, owners and labels are values, whatever is in them',
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
      { numRuns: 60 },
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

test('other schemas and tables are locks of their own', async () => {
  const place = { schema: 'locks_b', table: 'select' }
  await migrate({ url: server.url, ...place })
  for (const strategy of strategies) {
    const [here, there] = [open({ url: server.url, strategy }), open({ url: server.url, strategy, ...place })]
    const lease = await here.lock('both').acquire()
    const other = await there.lock('both').acquire({ waitMs: 0 })
    await Promise.all([lease.release(), other.release()])
  }
  expect(await prune({ url: server.url, ...place }, 0)).toBe(3)
})

test('migrate may be run by many at once, and again', async () => {
  const place = { schema: 'crowd', table: 'locks' }
  await Promise.all(Array.from({ length: 10 }, () => migrate({ url: server.url, ...place })))
  const locks = open({ url: server.url, ...place })
  await locks.with('a', () => undefined)
  await migrate({ url: server.url, ...place })
  await locks.with('a', ({ fence }) => expect(fence).toBe(2n))
})

test('without the tables an acquire says what to do, at once', async () => {
  for (const strategy of strategies) {
    const locks = open({ url: server.url, strategy, table: 'nowhere' })
    const error = await locks
      .lock('a')
      .acquire()
      .catch((reason: unknown) => reason)
    expect(isLockError(error, 'LOCK_INVALID_ARGUMENT')).toBe(true)
    expect(String(error)).toContain('migrate()')
  }
})

test.each(strategies)('%s: pruning cannot bring a fence back, nor touch what is held', async (strategy) => {
  const place = { schema: 'pruned', table: strategy.slice(0, 3) }
  await migrate({ url: server.url, ...place })
  const locks = open({ url: server.url, strategy, ...place })
  const fences: bigint[] = []
  const use = (): Promise<void> => locks.with('again', ({ fence }) => void fences.push(fence))
  const held = await locks.lock('held').acquire()
  for (let n = 0; n < 5; n += 1) await use()
  expect(await prune({ url: server.url, ...place }, 60_000)).toBe(0)
  // Pruning while others make the very row anew: whoever comes first, fences rise.
  for (let round = 0; round < 20; round += 1)
    await Promise.all([use(), prune({ url: server.url, ...place }, 0)])
  await prune({ url: server.url, ...place }, 0)
  await use()
  fences.reduce((before, fence) => {
    expect(fence).toBeGreaterThan(before)
    return fence
  })
  held.assertHeld()
  await held.extend()
  await held.release()
})

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

test('without a column, a fence is admitted in the transaction that writes', async () => {
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

test('a resource is told by all of its bytes, or refused', async () => {
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
    { numRuns: 40 },
  )
})

test('what is told of a holder survives a pool with a poorer character set', async () => {
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
