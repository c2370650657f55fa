import { lockInTransaction } from '@locks/postgres/transaction'
import { prune } from '@locks/postgres'
import { join } from 'node:path'
import { Client, Pool } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { inTransactionTests } from '../../sql/test/support/in-transaction-tests.ts'
import type { Session } from '../../sql/test/support/in-transaction-tests.ts'
import { startPgbouncer, whyNoPgbouncer } from './support/pgbouncer.ts'
import { open, startServer } from './support/setup.ts'

const server = await startServer()
const row = { url: server.url, strategy: 'row' }

async function connect(connectionString = server.url): Promise<Session & { readonly tx: Client }> {
  const client = new Client({ connectionString })
  client.on('error', () => undefined)
  await client.connect()
  onTestFinished(() => client.end().catch(() => undefined))
  const run = async (sql: string): Promise<unknown> => {
    const { rows } = await client.query<unknown[]>({ text: sql, rowMode: 'array' })
    return rows[0]?.[0]
  }
  return { tx: client, run, drop: () => client.connection.stream.destroy() }
}

inTransactionTests({
  url: server.url,
  lockInTransaction,
  connect: () => connect(),
  open,
  holding: { file: join(import.meta.dirname, 'in-transaction.fixture.mjs'), url: server.url },
  notTransactions: () => [new Pool({ connectionString: server.url })],
})

test.for(['REPEATABLE READ', 'SERIALIZABLE'])('%s is refused, and locks nothing', async (level) => {
  const [strict, other] = [await connect(), await connect()]
  await strict.run(`BEGIN ISOLATION LEVEL ${level}`)
  await expect(lockInTransaction(strict.tx, level)).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
    message: expect.stringContaining('READ COMMITTED') as unknown,
  })
  await other.run('BEGIN')
  await lockInTransaction(other.tx, level, { waitMs: 0 })
  await other.run('COMMIT')
  await strict.run('COMMIT')
})

test('a transaction that failed before is refused, and the error says so', async () => {
  const { tx, run } = await connect()
  await run('BEGIN')
  await expect(run('SELECT 1/0')).rejects.toThrow()
  const message: unknown = expect.stringContaining('roll it back')
  await expect(lockInTransaction(tx, 'failed')).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
    message,
  })
})

test('settings of the transaction are as before, and do not end a wait', async () => {
  const [holder, waiter] = [await connect(), await connect()]
  const settings =
    "SELECT concat_ws(' ', current_setting('lock_timeout'), current_setting('statement_timeout'))"
  await holder.run('BEGIN')
  await lockInTransaction(holder.tx, 'settings')
  await waiter.run('BEGIN')
  await waiter.run("SET LOCAL lock_timeout = '70ms'")
  await waiter.run("SET LOCAL statement_timeout = '80ms'")
  await expect(lockInTransaction(waiter.tx, 'settings', { waitMs: 200 })).rejects.toMatchObject({
    code: 'LOCK_TIMEOUT',
  })
  expect(await waiter.run(settings)).toBe('70ms 80ms')
  const turn = lockInTransaction(waiter.tx, 'settings', { waitMs: scaled(20_000) })
  await new Promise((resolve) => setTimeout(resolve, 200))
  await holder.run('COMMIT')
  await turn
  expect(await waiter.run(settings)).toBe('70ms 80ms')
  await waiter.run('COMMIT')
  expect(await waiter.run(settings)).toBe('0 0')
})

test('two transactions that wait for each other: one is told of the deadlock', async () => {
  const [one, two] = [await connect(), await connect()]
  for (const [{ tx, run }, name] of [
    [one, 'left'],
    [two, 'right'],
  ] as const) {
    await run('BEGIN')
    await lockInTransaction(tx, name)
  }
  const turn = async ({ tx, run }: Session, name: string): Promise<void> => {
    try {
      await lockInTransaction(tx, name, { waitMs: scaled(20_000) })
    } finally {
      await run('ROLLBACK')
    }
  }
  const outcomes = await Promise.allSettled([turn(one, 'right'), turn(two, 'left')])
  const message: unknown = expect.stringContaining('deadlock')
  expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(outcomes.find(({ status }) => status === 'rejected')).toMatchObject({
    reason: { code: 'LOCK_UNAVAILABLE', message },
  })
})

test('an operator can break it, which ends its connection', async () => {
  const locks = open(row)
  const { tx, run } = await connect()
  await run('BEGIN')
  await lockInTransaction(tx, 'broken')
  expect(await locks.lock('broken').break()).toMatchObject({
    owner: expect.stringContaining('backend') as unknown,
  })
  await expect(run('SELECT 1')).rejects.toThrow()
  await locks.with('broken', { waitMs: scaled(5_000) }, () => undefined)
})

test('its names are pruned when they are idle, never while they are held', async () => {
  const { tx, run } = await connect()
  const place = { url: server.url }
  await prune(place, 0)
  for (const name of ['idle one', 'idle two']) {
    await run('BEGIN')
    await lockInTransaction(tx, name)
    await run('COMMIT')
  }
  await run('BEGIN')
  const { fence } = await lockInTransaction(tx, 'idle one')
  expect(await prune(place, 0)).toBe(1)
  await run('COMMIT')
  expect(await prune(place, 0)).toBe(1)
  await run('BEGIN')
  expect((await lockInTransaction(tx, 'idle one')).fence).toBeGreaterThan(fence)
  await run('COMMIT')
})

test('advisory needs no table, has no fence, and excludes the same names', async () => {
  const [one, two] = [await connect(), await connect()]
  const options = { advisory: true, schema: 'nowhere' } as const
  await one.run('BEGIN')
  await two.run('BEGIN')
  expect(await lockInTransaction(one.tx, 'bare', options)).toEqual({ name: 'bare' })
  await expect(lockInTransaction(two.tx, 'bare', { ...options, waitMs: 0 })).rejects.toMatchObject({
    code: 'LOCK_TIMEOUT',
  })
  const turn = lockInTransaction(two.tx, 'bare', { ...options, waitMs: scaled(20_000) })
  await one.run('COMMIT')
  await turn
  await two.run('COMMIT')
  await expect(lockInTransaction(two.tx, 'bare', options)).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
  })
})

test('works through PgBouncer in transaction mode', async ({ skip }) => {
  const missing = await whyNoPgbouncer()
  if (missing !== undefined) skip(missing)
  const { url, close } = await startPgbouncer(server, 'transaction')
  onTestFinished(close)
  const fences: bigint[] = []
  let inside = 0
  await Promise.all(
    [1, 2, 3, 4].map(async () => {
      const { tx, run } = await connect(url)
      for (let n = 0; n < 10; n += 1) {
        await run('BEGIN')
        fences.push((await lockInTransaction(tx, 'pooled', { waitMs: scaled(30_000) })).fence)
        expect(++inside).toBe(1)
        await run('SELECT 1')
        inside -= 1
        await run('COMMIT')
      }
      await expect(lockInTransaction(tx, 'pooled')).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
    }),
  )
  expect(fences).toEqual(fences.toSorted((a, b) => Number(a - b)))
})
