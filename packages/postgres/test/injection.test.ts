import { isLockError } from '@locks/core'
import { admitFence, fenced, migrate, migrationSql, prune } from '@locks/postgres'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { atLength } from '../../../conformance/selection.ts'
import { scaled } from '../../../conformance/services/timing.ts'
import { sqlTableTests } from '../../sql/test/support/table-tests.ts'
import { connect, open, startServer } from './support/setup.ts'

const server = await startServer()
const strategies = ['unique-key', 'row', 'advisory']

const nasty = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 60 }),
  fc.constantFrom(
    "'; DROP TABLE locks; --",
    '"; DROP TABLE locks; --',
    '$locks$ DROP TABLE locks',
    "\\'; SELECT pg_sleep(10) --",
    '\0',
    '$1',
    '{}',
    '%s',
  ),
)
const text = nasty.filter((value) => !/\p{Surrogate}/u.test(value) && Buffer.byteLength(value) <= 200)

test.each(strategies)(
  '%s: names, owners and labels are values, whatever they contain',
  async (strategy) => {
    const control = await connect(server)
    const tables =
      'SELECT array_agg(tablename ORDER BY tablename)::text AS names FROM pg_tables WHERE schemaname = $1'
    const before = (await control.query(tables, ['public'])).rows
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
    expect((await control.query(tables, ['public'])).rows).toEqual(before)
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
        refused(() => fenced(1n, 1, value))
      },
    ),
  )
  await expect(migrate({ url: server.url, table: 'a"; DROP TABLE locks; --' })).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
  })
})

sqlTableTests({ server, strategies, open, migrate, prune, elsewhere: { schema: 'Locks_B', table: 'Select' } })

test('a migration tool can run the SQL of migrate over existing tables', async () => {
  const control = await connect(server)
  await control.query(migrationSql())
  await open({ url: server.url }).with('a', () => undefined)
})

test('migrate and prune do not depend on the isolation level of the role', async () => {
  const control = await connect(server)
  await control.query('CREATE ROLE strict SUPERUSER LOGIN')
  await control.query("ALTER ROLE strict SET default_transaction_isolation = 'serializable'")
  const url = server.url.replace('postgres@', 'strict@')
  const place = { schema: 'strict', table: 'locks' }
  await Promise.all(Array.from({ length: 10 }, () => migrate({ url, ...place })))
  const locks = open({ url, ...place })
  for (let round = 0; round < 40; round += 1)
    await Promise.all([locks.with('busy', () => undefined), prune({ url, ...place }, 0)])
})

test('a guarded UPDATE refuses a stale holder: stock is sold once', async () => {
  const control = await connect(server)
  await control.query(
    'CREATE TABLE stock (item text PRIMARY KEY, amount int NOT NULL, fence bigint NOT NULL DEFAULT 0)',
  )
  await control.query("INSERT INTO stock VALUES ('book', 1)")
  const sell = async (fence: bigint): Promise<number | null> => {
    const { set, where, value } = fenced(fence, 2)
    const update = `UPDATE stock SET amount = amount - 1, ${set} WHERE item = $1 AND amount > 0 AND ${where}`
    return (await control.query(update, ['book', value])).rowCount
  }
  expect(await sell(7n)).toBe(1)
  await control.query("UPDATE stock SET amount = 1 WHERE item = 'book'")
  expect(await sell(6n)).toBe(0)
  expect(await sell(7n)).toBe(1)
})

test('without a column, a fence is checked in the transaction that writes', async () => {
  const [old, next] = [await connect(server), await connect(server)]
  await next.query('BEGIN')
  await admitFence(next, "file:'; --", 9n)
  await old.query('BEGIN')
  const stale = expect(admitFence(old, "file:'; --", 8n)).rejects.toMatchObject({ code: 'LOCK_LOST' })
  await next.query('COMMIT')
  await stale
  await old.query('ROLLBACK')
  await admitFence(old, "file:'; --", 9n)
})

test('a resource is identified by all of its bytes, or refused', async () => {
  const client = await connect(server)
  for (const resource of ['', '\ud800', 'x'.repeat(1_025)])
    await expect(admitFence(client, resource, 1n)).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
})
