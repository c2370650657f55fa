import type { Finding } from '@locks/core'
import { migrate } from '@locks/postgres'
import { expect, test } from 'vitest'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { findingsOf } from '../../sql/test/support/findings.ts'
import { bare, connect, contended, lossOf, open, startServer } from './support/setup.ts'

const server = await startServer({ max_connections: 60 })
const strategies = ['unique-key', 'row']

/** A new role that may log in; `grants` adds rights. */
async function urlOf(role: string, grants: readonly string[] = []): Promise<string> {
  const control = await connect(server)
  await control.query(`CREATE ROLE ${role} LOGIN`)
  for (const grant of grants) await control.query(grant)
  return server.url.replace('postgres@', `${role}@`)
}

const useTables = (role: string): string[] => [
  `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ${role}`,
]

async function findings(config: Record<string, unknown>): Promise<Map<string, Finding>> {
  return new Map((await findingsOf(open(config))).map((finding) => [finding.check, finding]))
}

test.each([...strategies, 'advisory'])(
  '%s: a list shows who holds what, in any characters',
  async (strategy) => {
    const [holder, operator] = [open({ url: server.url, strategy }), open({ url: server.url, strategy })]
    const names = ['plain', 'a\\b', "'; --", 'löck 🔒', '\u0001']
    const leases = await Promise.all(names.map((name) => holder.lock(name).acquire({ owner: `of ${name}` })))
    const held = await operator.list({ limit: 100 })
    expect(held.map(({ name }) => name).toSorted()).toEqual(names.toSorted())
    for (const { name, holder: by } of held) {
      expect(by).toMatchObject({ owner: `of ${name}`, metadata: { pid: process.pid } })
      expect(by?.fence).toBe(leases[names.indexOf(name)]?.fence)
    }
    expect(await operator.list({ limit: 2 })).toHaveLength(2)
    await Promise.all(leases.map((lease) => lease.release()))
    expect(await operator.list()).toEqual([])
  },
)

test('unique-key: a list counts waiters, without dead ones', async () => {
  const [holder, waiter, operator] = [1, 2, 3].map(() => open({ url: server.url }))
  if (holder === undefined || waiter === undefined || operator === undefined) throw new Error('no clients')
  const lease = await holder.lock('queue').acquire()
  const waits = contended(waiter, 'queue')
  const turn = waiter.lock('queue').acquire({ waitMs: scaled(30_000) })
  await waits
  const control = await connect(server)
  await control.query(`INSERT INTO locks_waiters (name, position, attempt, holder, ttl_ms, delay_ms, claim_ms, listener)
    VALUES ('queue', 1000, 'gone', '{}', 1000, 0, 1000, 1)`)
  expect(await operator.list()).toMatchObject([{ name: 'queue', waiters: 1 }])
  expect(await operator.inspect('queue')).toMatchObject({ waiters: 1 })
  await lease.release()
  await (await turn).release()
})

test('row: a break ends the connection of that hold and no other', async () => {
  const [holder, operator] = [
    open({ url: server.url, strategy: 'row' }),
    bare({ url: server.url, strategy: 'row' }),
  ]
  const [broken, other] = [await holder.lock('broken').acquire(), await holder.lock('other').acquire()]
  const lost = lossOf(broken)
  const { holder: by } = await operator.adapter.inspect('broken')
  if (by === undefined) throw new Error('nobody holds it')
  expect(await operator.adapter.break?.('other', by)).toBe(by.fence === other.fence ? 'broken' : 'not-held')
  expect(await operator.adapter.break?.('broken', { ...by, fence: (by.fence ?? 0n) + 1n })).toBe('not-held')
  expect(await operator.adapter.break?.('broken', by)).toBe('broken')
  await lost
  const next = await operator.take(operator.request('broken'))
  expect(next.fence).toBeGreaterThan(broken.fence)
  expect(await operator.adapter.break?.('broken', by)).toBe('not-held')
  expect(await operator.adapter.release(next)).toBe('released')
})

test('row: a break without the right to end connections is refused, and the holder stays', async () => {
  const url = await urlOf('powerless', useTables('powerless'))
  const [holder, operator] = [open({ url: server.url, strategy: 'row' }), open({ url, strategy: 'row' })]
  const lease = await holder.lock('kept').acquire()
  await expect(operator.lock('kept').break()).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  await lease.extend()
  await lease.release()
})

test.each([...strategies, 'advisory'])(
  '%s: on a server that is set up well, diagnose finds only keepalives',
  async (strategy) => {
    const found = await findings({
      url: server.url,
      strategy,
      ...(strategy !== 'unique-key' && { maxConnections: 5 }),
    })
    const wrong = [...found.values()].filter(({ level, check }) => level !== 'ok' && check !== 'keepalives')
    expect(wrong).toEqual([])
    expect(found.get('server-version')?.message).toMatch(/^PostgreSQL \d+/)
    expect(found.get('pooling')?.message).toContain('the server itself')
    expect([...found.keys()]).not.toContain('clock')
  },
)

test.each([
  ['tcp_user_timeout', 5_000],
  ['tcp_keepalives_idle', 1],
])('row: diagnose finds a server that ends a holder before its ttl, by %s', async (name, value) => {
  const set = `ALTER ROLE hasty_${name} SET`
  const probes = [`${set} tcp_keepalives_interval = 1`, `${set} tcp_keepalives_count = 2`]
  const url = await urlOf(`hasty_${name}`, [...probes, `${set} ${name} = ${value}`])
  const levelOf = async (config: object): Promise<string | undefined> => {
    return (await findings({ url, ...config })).get('keepalives')?.level
  }
  expect(await levelOf({ strategy: 'row' })).toBe('danger')
  expect(await levelOf({ strategy: 'row', sessionTtlMs: 2_000 })).not.toBe('danger')
  expect(await levelOf({ strategy: 'unique-key' })).not.toBe('danger')
})

test('diagnose finds what is wrong with a server, a role or its tables', async () => {
  const control = await connect(server)
  const url = await urlOf('limited', [
    'ALTER ROLE limited SET default_transaction_read_only = on',
    "ALTER ROLE limited SET default_transaction_isolation = 'serializable'",
    'ALTER ROLE limited SET statement_timeout = 500',
    'ALTER ROLE limited SET idle_session_timeout = 60000',
    'ALTER ROLE limited SET tcp_keepalives_idle = 60',
  ])
  for (const strategy of strategies) {
    const found = await findings({ url, strategy, ...(strategy === 'row' && { maxConnections: 60 }) })
    expect(found.get('recovery')).toMatchObject({ level: strategy === 'row' ? 'warning' : 'ok' })
    expect(found.get('isolation')?.message).toContain('serializable by default')
    expect(found.get('session-timeouts')?.message).toContain(
      'statement_timeout is 500 ms, idle_session_timeout',
    )
    expect(found.get('tables')?.message).toContain('may not use')
    expect(found.get('keepalives')).toMatchObject({ level: 'ok' })
    expect(found.get('connections')?.level).toBe(strategy === 'row' ? 'warning' : 'ok')
    const elsewhere = await findings({ url: server.url, strategy, table: 'nowhere' })
    expect(elsewhere.get('tables')).toMatchObject({ level: 'warning', advice: 'run migrate()' })
  }
  await control.query('ALTER SYSTEM SET fsync = off')
  await control.query('SELECT pg_reload_conf()')
  const locks = open({ url: server.url })
  const settled = (level: string): Promise<unknown> =>
    eventually(`durability is ${level}`, async () =>
      (await locks.diagnose()).some((one) => one.check === 'durability' && one.level === level),
    )
  await settled('danger')
  await control.query('ALTER SYSTEM RESET fsync')
  await control.query('SELECT pg_reload_conf()')
  await settled('ok')
})

test('diagnose of an unreachable server rejects with a lock error without the password', async () => {
  const locks = open(
    { url: 'postgres://somebody:s3cr3t@127.0.0.1:1/nowhere' },
    { storeTimeoutMs: scaled(2_000) },
  )
  const error = await locks.diagnose().catch((reason: unknown) => reason)
  expect(error).toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  expect(String(error)).not.toContain('s3cr3t')
})

test('the owner of a schema can migrate it without the right to create schemas', async () => {
  const url = await urlOf('tenant', ['CREATE SCHEMA tenant AUTHORIZATION tenant'])
  await migrate({ url, schema: 'tenant' })
  await migrate({ url, schema: 'tenant' })
  await open({ url, schema: 'tenant' }).with('owned', () => undefined)
})
