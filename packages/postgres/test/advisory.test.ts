import { isLockError } from '@locks/core'
import { assertInTime, eventually, inTime } from '@locks/core/conformance'
import { prune } from '@locks/postgres'
import type { Client } from 'pg'
import { expect, test } from 'vitest'
import { postgresQuery } from '../../../conformance/services/index.ts'
import { scaled } from '../../../conformance/services/timing.ts'
import { HandClock } from '../../../conformance/test-support/hand-clock.ts'
import { advisorySql } from '../src/advisory-sql.ts'
import { stopHolder } from './support/advisory-probes.ts'
import { bare, connect, contended, lossOf, open, startServer } from './support/setup.ts'
import { numberOf } from './support/subject.ts'

// Limits that would end a holder or a waiter, if the adapter did not override them.
const server = await startServer({
  max_connections: 60,
  idle_session_timeout: 400,
  lock_timeout: 100,
  statement_timeout: 2_000,
})
const { url } = server
const advisory = { url, strategy: 'advisory', sessionTtlMs: scaled(3_000) }
/** With connections that a slow machine leaves idle before they are used for the first time. */
const lastingUrl = `${url}?options=${encodeURIComponent('-c idle_session_timeout=0')}`

const namesOf = (what: string, count: number): string[] =>
  Array.from({ length: count }, (_, n) => `${what} ${n}`)

/** A connection that the server ends neither while it is idle nor in a statement. */
function patient(): Promise<Client> {
  return connect(server, '-c idle_session_timeout=0 -c statement_timeout=0')
}

/** The backends that hold these locks, by name. */
async function backendsOf(control: Client): Promise<Map<string, number>> {
  const { rows } = await control.query<{ name: Buffer; pid: number }>(
    `SELECT h.name, l.pid FROM locks_holders h JOIN pg_locks l ON l.locktype = 'advisory' AND l.granted
      AND (l.classid::bigint << 32) | l.objid::bigint = h.key`,
  )
  return new Map(rows.map(({ name, pid }) => [name.toString(), pid]))
}

test('200 holds share at most four connections, are renewed, and are released one by one', async () => {
  const control = await patient()
  const config = { url: lastingUrl, strategy: 'advisory' }
  // So many calls at once take a busy machine longer than one.
  const patience = { storeTimeoutMs: scaled(60_000) }
  const [locks, other] = [open(config, patience), open(config, patience)]
  const names = namesOf('shared', 200)
  const leases = await Promise.all(names.map((name) => locks.lock(name).acquire()))
  const backends = await backendsOf(control)
  expect(backends.size).toBe(200)
  expect(new Set(backends.values()).size).toBeLessThanOrEqual(4)
  await Promise.all(leases.map((lease) => lease.extend()))
  for (const [n, lease] of leases.entries()) if (n % 2 === 0) await lease.release()
  const tries = await Promise.all(names.map((name) => other.lock(name).tryAcquire()))
  expect(tries.map((lease) => lease === null)).toEqual(names.map((_, n) => n % 2 === 1))
  for (const [n, lease] of leases.entries()) if (n % 2 === 1) await lease.release()
})

test('a killed backend loses exactly its own holds, and each of them is reported', async () => {
  const control = await patient()
  const lost = new Set<string>()
  const lasting = { ...advisory, sessionTtlMs: 60_000 }
  const client = bare(lasting, { report: (state, id) => void (state === 'lost' && lost.add(String(id))) })
  const grants = []
  for (const name of namesOf('killed', 100)) grants.push(await client.take(client.request(name)))
  const backends = await backendsOf(control)
  const [killed, ...others] = new Set(grants.map(({ name }) => backends.get(name)))
  // A machine that stalls may need a third connection.
  expect(others.length).toBeGreaterThan(0)
  await control.query('SELECT pg_terminate_backend($1)', [killed])
  const theirs = grants.filter(({ name }) => backends.get(name) === killed)
  await eventually('all of them are lost', scaled(5_000), () => Promise.resolve(lost.size >= theirs.length))
  expect(lost).toEqual(new Set(theirs.map(({ attemptId }) => attemptId)))
  const outcomes = await client.adapter.renew(
    grants.map((grant) => ({ grant, ttlMs: 3_000, lockDelayMs: 0 })),
  )
  expect(outcomes).toEqual(grants.map(({ name }) => (backends.get(name) === killed ? 'lost' : 'renewed')))
})

test.each([1, 3])(
  'of 20 attempts of one client one gets the name, on %i connections, and the others are busy',
  async (maxConnections) => {
    const client = bare({ ...advisory, maxConnections })
    const requests = Array.from({ length: 20 }, () => client.request(`once ${maxConnections}`))
    const answers = await Promise.all(requests.map((request) => client.adapter.attempt(request)))
    const [grant, ...more] = answers.filter((answer) => 'fence' in answer)
    expect(more).toEqual([])
    if (grant === undefined || !('fence' in grant)) throw new Error('nobody got it')
    const again = await client.adapter.attempt(client.request(grant.name))
    expect(again).toMatchObject({ busy: true, holder: { fence: grant.fence } })
    expect(await client.adapter.release(grant)).toBe('released')
    // One unlock frees it: it was locked once.
    const next = bare(advisory)
    await next.take(next.request(grant.name))
  },
)

test('a hold that is not renewed ends with its ttl, although others keep its connection alive', async () => {
  const ttlMs = scaled(500)
  const [locks, other] = [open(advisory, { ttlMs }), open(advisory)]
  const kept = await locks.lock('kept').acquire()
  const fixed = await locks.lock('fixed').acquire({ maxHoldMs: ttlMs })
  const lost = lossOf(fixed)
  const start = performance.now()
  const next = await other.lock('fixed').acquire({ waitMs: scaled(10_000) })
  await assertInTime('the next holder', 2 * ttlMs + 1_000, performance.now() - start)
  await lost
  expect(next.fence).toBeGreaterThan(fixed.fence)
  await kept.extend()
  await kept.release()
})

test('a release reports what the server says', async () => {
  const control = await patient()
  await control.query('CREATE SCHEMA trap')
  const path = encodeURIComponent('-c search_path=trap,pg_catalog,public')
  const locks = open({ ...advisory, url: `${url}?options=${path}` })
  const [lease, fine] = [await locks.lock('unlocked').acquire(), await locks.lock('fine').acquire()]
  await fine.release()
  // Makes the next probe unlock what its session has: nothing else can do that from outside.
  await control.query(`CREATE FUNCTION trap.set_config(text, text, boolean) RETURNS text LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_unlock_all(); RETURN NULL; END'`)
  await lease.extend()
  await control.query('DROP SCHEMA trap CASCADE')
  await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
})

test('waiters get the lock in the order in which they began to wait', async () => {
  // A connection that the server ends before it is used would cost its waiter the place.
  const lasting = { ...advisory, url: lastingUrl }
  const holder = open(lasting)
  const lease = await holder.lock('order').acquire()
  const order: number[] = []
  const turns = []
  for (let n = 0; n < 5; n += 1) {
    const locks = open(lasting)
    const waits = contended(locks, 'order')
    turns.push(locks.with('order', { waitMs: scaled(30_000) }, () => void order.push(n)))
    await waits
    await eventually('it waits', scaled(5_000), async () => {
      const text = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
      return (await postgresQuery(server, text)) === String(n + 1)
    })
  }
  await lease.release()
  await Promise.all(turns)
  expect(order).toEqual([0, 1, 2, 3, 4])
})

test('a name is a number of 64 bits, for its table only', async () => {
  const control = await patient()
  const lease = await open(advisory).lock('numbered').acquire()
  const locked = async (number: string): Promise<unknown> =>
    (await control.query('SELECT NOT pg_try_advisory_lock_shared($1) AS it', [number])).rows[0]
  expect(await locked(numberOf('numbered'))).toEqual({ it: true })
  expect(await locked(numberOf('numbered '))).toEqual({ it: false })
  const elsewhere = await open({ ...advisory, table: 'elsewhere' })
    .lock('numbered')
    .tryAcquire()
  expect(elsewhere).not.toBe(null)
  await lease.release()
})

test('a table belongs to one strategy, and no break is offered', async () => {
  const mine = open({ ...advisory, table: 'mine' })
  await mine.with('a', () => undefined)
  const refused = open({ url, strategy: 'row', table: 'mine' }).lock('a').tryAcquire()
  await expect(refused).rejects.toThrow(/belong to strategy advisory, and this client uses row/)
  await open({ url, strategy: 'row', table: 'theirs' }).with('a', () => undefined)
  const stranger = open({ ...advisory, table: 'theirs' })
  await expect(stranger.lock('a').tryAcquire()).rejects.toThrow(/belong to strategy row/)
  await expect(mine.lock('a').break()).rejects.toMatchObject({ code: 'LOCK_UNSUPPORTED' })
})

test('without fences no table is needed, and holders exclude each other', async () => {
  const unfenced = { ...advisory, schema: 'nowhere', fencing: false }
  const [holder, other] = [open(unfenced), open(unfenced)]
  expect(holder.capabilities).toMatchObject({ fencing: 'none', list: false, break: false })
  const lease = await holder.lock('plain').acquire()
  expect(lease.fence).toBe(0n)
  expect(await other.lock('plain').tryAcquire()).toBe(null)
  expect(await other.inspect('plain')).toMatchObject({ held: true })
  const waits = contended(other, 'plain')
  const turn = other.lock('plain').acquire({ waitMs: scaled(10_000) })
  await waits
  await lease.extend()
  await lease.release()
  await (await turn).release()
  expect(await other.inspect('plain')).toEqual({ name: 'plain', held: false })
  expect(await postgresQuery(server, "SELECT to_regnamespace('nowhere') IS NULL")).toBe('t')
  const error = await holder.list().catch((reason: unknown) => reason)
  expect(isLockError(error, 'LOCK_UNSUPPORTED')).toBe(true)
})

test('a try that may not wait for a connection fails at once, and does not fail one that may', async () => {
  const [client, other] = [
    bare({ ...advisory, maxConnections: 1 }, { clock: new HandClock() }),
    bare(advisory),
  ]
  await other.take(other.request('taken'))
  const waiter = client.request('taken', { willWait: true })
  expect(await client.adapter.attempt(waiter)).toMatchObject({ busy: true })
  const refused = { code: 'LOCK_UNAVAILABLE' }
  const early = client.adapter.attempt(client.request('early'))
  const waiting = client.adapter.attempt(client.request('waiting', { willWait: true }))
  waiting.catch(() => undefined)
  await expect(early).rejects.toMatchObject(refused)
  const late = client.adapter.attempt(client.request('late'))
  await expect(inTime('it fails', scaled(2_000), late)).rejects.toMatchObject(refused)
  await client.adapter.withdraw(waiter)
  expect(await inTime('it gets the connection', scaled(5_000), waiting)).toHaveProperty('fence')
})

test('an attempt goes on as soon as the connection that was silent answers', async () => {
  const clock = new HandClock()
  const client = bare({ url, strategy: 'advisory', maxConnections: 1 }, { clock })
  const grant = await client.take(client.request('silent'))
  const resume = await stopHolder(server, 'public', 'silent')
  const renewed = client.adapter.renew([{ grant, ttlMs: 10_000, lockDelayMs: 0 }])
  await new Promise((resolve) => setImmediate(resolve))
  clock.move(1_500)
  const attempt = client.adapter.attempt(client.request('next', { willWait: true }))
  attempt.catch(() => undefined)
  await new Promise((resolve) => setImmediate(resolve))
  await resume()
  expect(await inTime('it is granted', scaled(5_000), attempt)).toHaveProperty('fence')
  expect(await renewed).toEqual(['renewed'])
})

test('prune keeps the record of a living hold, even if strategy row has used the name before', async () => {
  const place = { url, table: 'changed' }
  await open({ ...advisory, ...place, strategy: 'row' }).with('changed', () => undefined)
  await postgresQuery(server, 'DELETE FROM changed_strategy')
  const [holder, other] = [open({ ...advisory, ...place }), open({ ...advisory, ...place })]
  const lease = await holder.lock('changed').acquire()
  expect(await prune(place, 0)).toBe(0)
  expect(await other.inspect('changed')).toMatchObject({ held: true, holder: { fence: lease.fence } })
  await lease.release()
  expect(await prune(place, 0)).toBe(1)
})

test('a backend other than the expected one locks and unlocks nothing', async () => {
  const control = await patient()
  const { rows } = await control.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  const pid = rows[0]?.pid ?? NaN
  const run = (what: 'tryLock' | 'lock' | 'unlock', lock: string, expected: number): Promise<unknown> => {
    const silence = what === 'tryLock' ? ['1000'] : []
    return control.query(advisorySql[what].text, [lock, '900', ...silence, expected, 'nonce'])
  }
  const locked = async (): Promise<unknown> =>
    (await control.query('SELECT objid FROM pg_locks WHERE pid = $1 AND objsubid = 1', [pid])).rows
  await run('tryLock', '901', pid + 1)
  await run('lock', '902', pid + 1)
  expect(await locked()).toEqual([])
  await run('lock', '903', pid)
  await run('unlock', '903', pid + 1)
  expect(await locked()).toHaveLength(2)
  await run('unlock', '903', pid)
  expect(await locked()).toEqual([])
})

test('diagnose finds a lock table that fills up, and an attempt that does not fit says what to raise', async () => {
  const control = await patient()
  const finding = async (): Promise<string | undefined> => {
    const found = await open(advisory).diagnose()
    return found.find(({ check }) => check === 'lock-table')?.level
  }
  expect(await finding()).toBe('ok')
  await control.query('SELECT pg_advisory_lock(n) FROM generate_series(1, 3000) n')
  expect(await finding()).toBe('warning')
  const client = bare(advisory)
  await client.take(client.request('before'))
  const all = control.query('SELECT pg_advisory_lock(n) FROM generate_series(1, 50000) n')
  await expect(all).rejects.toMatchObject({ code: '53200' })
  const attempt = client.adapter.attempt(client.request('too many'))
  await expect(attempt).rejects.toThrow(/raise max_locks_per_transaction.*53200/)
  await control.query('SELECT pg_advisory_unlock_all()')
  await client.take(client.request('too many'))
})
