import { createLocks, isLockError } from '@locks/core'
import { startFaultProxy } from '@locks/core/conformance'
import { fromConfig } from '@locks/mysql'
import { createPool } from 'mysql2/promise'
import type { Pool, PoolOptions } from 'mysql2/promise'
import { expect, onTestFinished, test } from 'vitest'
import { scaled, within } from '../../../conformance/services/timing.ts'
import { withdrawalTests } from '../../sql/test/support/withdrawal-tests.ts'
import { bare, cell, connect, open, startServer } from './support/setup.ts'

const server = await startServer()
const config = { url: server.url }

withdrawalTests(() => open(config))

test('an attempt that is sent many times at once is one grant under one fence', async () => {
  const [client, other] = [bare({ ...config, poolSize: 10 }), bare(config)]
  const request = client.request('resent')
  const answers = await Promise.all(Array.from({ length: 20 }, () => client.take(request)))
  expect(new Set(answers.map(({ fence }) => fence))).toEqual(new Set([1n]))
  expect(await other.adapter.attempt(other.request('resent'))).toMatchObject({ busy: true })
})

test('an adoption needs the right fence, and does not shorten the hold', async () => {
  const [from, to] = [bare(config), bare(config)]
  const grant = await from.take(from.request('adopted', { ttlMs: 60_000 }))
  const request = to.request('adopted', { ttlMs: 1_000 })
  expect(await to.adapter.adopt?.({ ...grant, fence: grant.fence + 1n }, request)).toBe('lost')
  for (let twice = 0; twice < 2; twice += 1)
    expect(await to.adapter.adopt?.(grant, request)).toMatchObject({ fence: grant.fence })
  expect(await from.adapter.adopt?.(grant, from.request('adopted'))).toBe('lost')
  expect((await to.adapter.inspect('adopted')).remainingMs).toBeGreaterThan(30_000)
})

test('a transaction of another program on the row delays a try, and is neither busy nor an error', async () => {
  const control = await connect(server)
  const client = bare(config)
  await client.adapter.release(await client.take(client.request('stranger')))
  await control.beginTransaction()
  await control.query("SELECT * FROM locks WHERE name = 'stranger' FOR UPDATE")
  const tried = client.take(client.request('stranger'))
  // Longer than one lock wait of the adapter, which then tries again.
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  await control.commit()
  expect((await tried).fence).toBe(2n)
})

function poolOf(setting: string, options: PoolOptions = {}): Pool {
  const pool = createPool({ uri: server.url, connectionLimit: 3, ...options })
  pool.on('connection', (connection) => void connection.query(`SET SESSION ${setting}`))
  onTestFinished(() => pool.end())
  return pool
}

test.each([
  ["sql_mode = 'SIMULTANEOUS_ASSIGNMENT'", 'SIMULTANEOUS_ASSIGNMENT', 'sql-mode'],
  ["sql_mode = 'STRICT_ALL_TABLES,SIMULTANEOUS_ASSIGNMENT'", 'SIMULTANEOUS_ASSIGNMENT', 'sql-mode'],
  ['autocommit = 0', 'autocommit', 'autocommit'],
])('a pool with %s is refused, and nothing is held', async (setting, told, check) => {
  const held = await open(config).lock('odd').acquire()
  const locks = createLocks(fromConfig({ pool: poolOf(setting) }))
  onTestFinished(() => locks.close())
  if (check === 'autocommit') {
    // A read in an old transaction is out of date.
    await expect(locks.inspect('odd')).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
    await expect(locks.list()).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  }
  for (const name of ['odd', `new ${setting}`]) {
    const error = await locks
      .lock(name)
      .tryAcquire()
      .catch((reason: unknown) => reason)
    expect(isLockError(error, 'LOCK_INVALID_ARGUMENT')).toBe(true)
    expect(String(error)).toContain(told)
  }
  const found = (await locks.diagnose()).find((finding) => finding.check === check)
  expect(found?.level).toBe('warning')
  const control = await connect(server)
  expect(await cell(control, 'SELECT COUNT(*) FROM locks WHERE name LIKE ?', [`new ${setting}`])).toBe('0')
  await held.extend()
  await held.release()
})

test.each(['READ UNCOMMITTED', 'READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'])(
  'a pool may be %s: every statement is atomic',
  async (level) => {
    const client = bare({ pool: poolOf(`TRANSACTION ISOLATION LEVEL ${level}`) })
    const other = bare(config)
    const grant = await client.take(client.request(level))
    const busy = await client.adapter.attempt(client.request(level))
    expect(busy).toMatchObject({ busy: true, holder: { fence: grant.fence } })
    expect(await client.adapter.renew([{ grant, ttlMs: 30_000, lockDelayMs: 0 }])).toEqual(['renewed'])
    expect(await client.adapter.release(grant)).toBe('released')
    const next = await other.take(other.request(level))
    // Every statement sees the current state.
    expect(await client.adapter.attempt(client.request(level))).toMatchObject({
      holder: { fence: next.fence },
    })
    expect(await client.adapter.release(grant)).toBe('not-held')
  },
)

test('a pool whose transactions are read-only by default is an outage, and diagnose finds it', async () => {
  const locks = createLocks(fromConfig({ pool: poolOf('TRANSACTION READ ONLY') }), {
    retry: { attempts: 1 },
  })
  onTestFinished(() => locks.close())
  const message: unknown = expect.stringContaining('read-only by default')
  await expect(locks.lock('read-only').tryAcquire()).rejects.toMatchObject({
    code: 'LOCK_UNAVAILABLE',
    message,
  })
  const found = (await locks.diagnose()).find(({ check }) => check === 'tables')
  expect(found).toMatchObject({ level: 'warning', message })
})

test(
  '5,000 holds are renewed in a few batches',
  async () => {
    const client = bare({ ...config, poolSize: 10 })
    const count = 5_000
    const grants = await Promise.all(
      Array.from({ length: count }, (_, n) => client.take(client.request(`batch:${n}`, { ttlMs: 600_000 }))),
    )
    const gone = grants[7]
    if (gone !== undefined) await client.adapter.release(gone)
    const outcomes = await client.adapter.renew(
      grants.map((grant) => ({ grant, ttlMs: 600_000, lockDelayMs: 0 })),
    )
    expect(outcomes.filter((outcome) => outcome === 'renewed')).toHaveLength(count - 1)
    expect(outcomes[7]).toBe('lost')
  },
  scaled(60_000),
)

test(
  'a pool of the program on a silent server is an outage in time, and works again afterwards',
  async () => {
    const pool = createPool({ uri: server.url, connectionLimit: 1 })
    onTestFinished(() => pool.end())
    const client = bare({ pool })
    await client.adapter.release(await client.take(client.request('silent')))
    await server.pause()
    const request = client.request('silent')
    await expect(client.adapter.attempt(request)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    const withdrawn = client.adapter.withdraw(request)
    await server.resume()
    await withdrawn
    await client.take(client.request('another'))
  },
  scaled(40_000),
)

test(
  'a pool of the program whose server falls silent during a rollback gets its connection back',
  async () => {
    const proxy = await startFaultProxy({ host: server.host, port: server.port })
    onTestFinished(() => proxy.close())
    const uri = server.url.replace(`${server.host}:${server.port}`, `${proxy.host}:${proxy.port}`)
    const pool = poolOf('autocommit = 0', { uri, connectionLimit: 1 })
    const client = bare({ pool })
    // Swallows nothing: it only shows when to fall silent.
    const matching = (sent: Buffer): boolean => {
      if (sent.includes('ROLLBACK')) proxy.blackhole('replies')
      return false
    }
    proxy.swallowNextReply({ matching }).catch(() => undefined)
    const tried = within(20_000, client.adapter.attempt(client.request('undone')))
    await expect(tried).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    expect(proxy.stats.swallowed).toBeGreaterThan(0)
    proxy.pass()
    await within(10_000, pool.query('DO 1'))
  },
  scaled(40_000),
)
