import { createLocks } from '@locks/core'
import { admitFence, fromConfig, migrate, postgres } from '@locks/postgres'
import postgresJs from 'postgres'
import { expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { pass, proxyTo } from './support/proxy.ts'
import type { Join } from './support/proxy.ts'
import { connect, open, startServer } from './support/setup.ts'

const server = await startServer()
const ttlMs = scaled(1_000)

type Options = NonNullable<Parameters<typeof postgresJs>[1]>

function sqlOf(options: Options = {}, url: string = server.url): postgresJs.Sql {
  const sql = postgresJs(url, { onnotice: () => undefined, ...options })
  onTestFinished(() => sql.end({ timeout: 1 }))
  return sql
}

test.each(['unique-key', 'row'])(
  '%s: locks are acquired and renewed while queries of the program take every connection of its sql',
  async (strategy) => {
    const sql = sqlOf({ max: 2 })
    const locks = createLocks(fromConfig({ pool: sql, strategy }), { ttlMs })
    const other = open({ url: server.url, strategy })
    const asleep = [1, 2].map(() => sql`SELECT pg_sleep(${(ttlMs * 2) / 1_000})`.execute())
    await locks.with('busy', async (lease) => {
      await Promise.all(asleep)
      lease.assertHeld()
      expect(await other.lock('busy').tryAcquire()).toBeNull()
    })
    await locks.close()
    // It is the program's to end.
    expect(await sql`SELECT 1 AS one`).toEqual([{ one: 1 }])
  },
  scaled(15_000),
)

test('how a sql reads and writes values does not matter, nor that it prepares nothing', async () => {
  const swap = { from: () => 'swapped' }
  const odd = { to: 17, from: [16, 17, 20, 25], serialize: () => 'odd', parse: () => 'odd' }
  const transform = { column: swap, value: swap, row: { from: () => ({ swapped: true }) } }
  const sql = sqlOf({ transform, types: { odd }, prepare: false, fetch_types: false })
  for (const strategy of ['unique-key', 'row'] as const) {
    const table = `odd_${strategy.replace('-', '_')}`
    await migrate({ pool: sql, table })
    const locks = createLocks(fromConfig({ pool: sql, strategy, table }))
    await locks.with('schloß 🔒', { owner: 'Łukasz "\\" {1,2}' }, async (lease) => {
      expect(lease.fence).toBeGreaterThan(0n)
      expect((await locks.inspect('schloß 🔒')).holder?.owner).toBe('Łukasz "\\" {1,2}')
      await lease.extend()
    })
    expect(await locks.list()).toEqual([])
    await locks.close()
  }
})

test('a sql behind several servers is used where one of them answers', async () => {
  const sql = postgresJs(`postgres://postgres@127.0.0.1:1,${server.host}:${server.port}/postgres`)
  onTestFinished(() => sql.end({ timeout: 1 }))
  const locks = createLocks(postgres({ pool: sql }))
  await locks.with('several', ({ fence }) => expect(fence).toBeTypeOf('bigint'))
  await locks.close()
})

/** Asks for a password in place of the server, which trusts everybody. */
const asking: Join = (client, behind) => {
  client.once('data', (startup) => {
    client.write(Buffer.from('R\0\0\0\b\0\0\0\u0003'))
    client.once('data', (answer) => {
      if (!answer.includes('s3cret\0')) return client.destroy()
      behind.write(startup)
      return pass(client, behind)
    })
  })
}

test('a function of the program gives the password, and its failure is an outage', async () => {
  const { port } = await proxyTo(server, asking)
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  const passes = [() => Promise.resolve('s3cret'), () => Promise.reject(new Error('no vault'))] as const
  const [good, bad] = passes.map((password) => sqlOf({ password }, url))
  const locks = createLocks(postgres({ pool: good ?? expect.fail() }))
  await locks.with('asked', ({ fence }) => expect(fence).toBeTypeOf('bigint'))
  await locks.close()
  const without = createLocks(postgres({ pool: bad ?? expect.fail() }), { retry: { attempts: 1 } })
  await expect(without.lock('asked').tryAcquire()).rejects.toMatchObject({
    code: 'LOCK_UNAVAILABLE',
    message: expect.stringContaining('no vault') as unknown,
  })
  await without.close()
})

test('a sql whose server cannot be reached is an outage, and nothing is left of it', async () => {
  const sql = postgresJs({ host: '127.0.0.1', port: 1, user: 'postgres' })
  const locks = createLocks(postgres({ pool: sql }), { storeTimeoutMs: 200 })
  await expect(locks.lock('a').tryAcquire()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  await locks.close()
})

test('a transaction and a reserved connection of postgres are refused before anything is sent', async () => {
  const sql = sqlOf({ max: 1 })
  const refuse = (pool: unknown, what: string): void => {
    const refused = (): unknown => Reflect.apply(postgres, undefined, [{ pool }])
    expect(refused).toThrow(expect.objectContaining({ code: 'LOCK_INVALID_ARGUMENT' }))
    expect(refused).toThrow(`pool must be a Pool of pg or a sql of postgres, not ${what}`)
  }
  await sql.begin((transaction) => refuse(transaction, 'a transaction'))
  const reserved = await sql.reserve()
  refuse(reserved, 'a transaction or a single connection of postgres')
  reserved.release()
  refuse(postgresJs, 'a function')
  refuse(() => undefined, 'a function')
})

test('a fence is admitted in a transaction of postgres, and a stale one refused', async () => {
  const [sql, control] = [sqlOf(), await connect(server)]
  await sql.begin((transaction) => admitFence(transaction, 'stock', 7n))
  await expect(sql.begin((transaction) => admitFence(transaction, 'stock', 6n))).rejects.toMatchObject({
    code: 'LOCK_LOST',
  })
  await expect(admitFence(control, 'stock', 6n)).rejects.toMatchObject({ code: 'LOCK_LOST' })
  await admitFence(control, 'stock', 8n)
})
