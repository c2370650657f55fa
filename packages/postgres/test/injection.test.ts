import { isLockError } from '@locks/core'
import { admitFence, fenced, migrate, migrationSql, prune } from '@locks/postgres'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { connect, open, startServer } from './setup.ts'

const server = await startServer()

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

test.each(['unique-key', 'row'])(
  '%s: names, owners and labels are values, whatever is in them',
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
      { numRuns: 60 },
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

test('other schemas and tables are locks of their own, in the case they were given', async () => {
  const place = { schema: 'Locks_B', table: 'Select' }
  await migrate({ url: server.url, ...place })
  for (const strategy of ['unique-key', 'row']) {
    const [here, there] = [open({ url: server.url, strategy }), open({ url: server.url, strategy, ...place })]
    const lease = await here.lock('both').acquire()
    const other = await there.lock('both').acquire({ waitMs: 0 })
    await Promise.all([lease.release(), other.release()])
  }
  expect(await prune({ url: server.url, ...place }, 0)).toBe(2)
})

test('migrate may be run by many at once, and again', async () => {
  const place = { schema: 'crowd', table: 'locks' }
  await Promise.all(Array.from({ length: 10 }, () => migrate({ url: server.url, ...place })))
  const locks = open({ url: server.url, ...place })
  await locks.with('a', () => undefined)
  await migrate({ url: server.url, ...place })
  const control = await connect(server)
  await control.query(migrationSql(place))
  await locks.with('a', ({ fence }) => expect(fence).toBe(2n))
})

test('without the tables an acquire says what to do, at once', async () => {
  for (const strategy of ['unique-key', 'row']) {
    const locks = open({ url: server.url, strategy, table: 'nowhere' })
    const error = await locks
      .lock('a')
      .acquire()
      .catch((reason: unknown) => reason)
    expect(isLockError(error, 'LOCK_INVALID_ARGUMENT')).toBe(true)
    expect(String(error)).toContain('migrate()')
  }
})

test.each(['unique-key', 'row'])(
  '%s: pruning cannot bring a fence back, nor touch what is held',
  async (strategy) => {
    const place = { schema: 'pruned', table: strategy === 'row' ? 'r' : 'u' }
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
  },
)

test('migrate and prune do without the isolation level of the role', async () => {
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

test('without a column, a fence is admitted in the transaction that writes', async () => {
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
