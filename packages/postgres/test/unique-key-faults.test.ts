import { createLocks } from '@locks/core'
import { systemClock } from '@locks/core/adapter'
import { assertInTime } from '@locks/core/conformance'
import { fromConfig, postgres } from '@locks/postgres'
import { once } from 'node:events'
import { connect as connectTo, createServer } from 'node:net'
import type { Socket } from 'node:net'
import { Pool } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { bare, connect, contended, never, open, startServer } from './setup.ts'

const server = await startServer({ max_connections: 60 })
const uniqueKey = { url: server.url, strategy: 'unique-key' }
const row = { url: server.url, strategy: 'row' }

test('leases in a table outlive the crash of a backend', async () => {
  const control = await connect(server)
  const locks = open(uniqueKey)
  const lease = await locks.lock('trap-2').acquire()
  const { rows } = await control.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  await server.signal(rows[0]?.pid ?? NaN, 'SIGKILL')
  const other = open(uniqueKey)
  const { holder } = await eventually('the server is back', () => other.inspect('trap-2'))
  expect(holder?.fence).toBe(lease.fence)
  expect(await other.lock('trap-2').tryAcquire()).toBeNull()
  await lease.extend()
  await lease.release()
  await (await other.lock('trap-2').acquire()).release()
})

test.each(['40001', '40P01', '23505', '55P03'])(
  '%s is retried, and the caller does not see it',
  async (code) => {
    const control = await connect(server)
    // Fails every statement that grants a lock of this name, but for each third: sequences do not roll back.
    await control.query(`CREATE SEQUENCE fails_${code};
CREATE FUNCTION fail_${code}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF nextval('fails_${code}') % 3 <> 0 THEN RAISE EXCEPTION 'injected' USING ERRCODE = '${code}'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER fail_${code} BEFORE INSERT OR UPDATE ON locks FOR EACH ROW
  WHEN (NEW.name = 'trap-5:${code}' AND NEW.attempt IS NOT NULL) EXECUTE FUNCTION fail_${code}()`)
    const locks = open(uniqueKey)
    for (let n = 0; n < 5; n += 1) {
      const lease = await locks.lock(`trap-5:${code}`).tryAcquire()
      expect(lease).not.toBeNull()
      await lease?.release()
    }
    await control.query(`DROP TRIGGER fail_${code} ON locks`)
  },
)

describe.each([uniqueKey, row])('$strategy', (config) => {
  test(
    'two clients on a missing row, a thousand times: one wins, nothing else reaches them',
    async () => {
      const [a, b] = [bare(config), bare(config)]
      for (let round = 0; round < 1_000; round += 1) {
        const lock = `trap-9:${round}`
        const answers = await Promise.all([
          a.adapter.attempt(a.request(lock)),
          b.adapter.attempt(b.request(lock)),
        ])
        const [won, ...more] = answers.filter((answer) => 'fence' in answer)
        expect(more).toEqual([])
        expect(won?.fence).toBe(1n)
        if (won !== undefined)
          expect(await (answers[0] === won ? a : b).adapter.release(won)).toBe('released')
      }
    },
    scaled(180_000),
  )

  test("the program's own open transaction on its own pool is never touched", async () => {
    const pool = new Pool({ connectionString: server.url, max: 2 })
    onTestFinished(() => pool.end())
    const own = await pool.connect()
    await own.query('CREATE TABLE IF NOT EXISTS mine (n int)')
    await own.query('BEGIN')
    await own.query('INSERT INTO mine VALUES (1)')
    const xid = async (): Promise<unknown> => (await own.query('SELECT txid_current() AS xid')).rows
    const before = await xid()
    const locks = createLocks(fromConfig({ pool, strategy: config.strategy }))
    onTestFinished(() => locks.close())
    for (let n = 0; n < 5; n += 1) await locks.with(`trap-10:${config.strategy}`, () => undefined)
    expect(await xid()).toEqual(before)
    await own.query('ROLLBACK')
    expect((await own.query('SELECT * FROM mine')).rows).toEqual([])
    own.release()
  })

  test('a pool of one connection does not deadlock on itself', async () => {
    const pool = new Pool({ connectionString: server.url, max: 1 })
    onTestFinished(() => pool.end())
    const [holder, waiter] = [1, 2].map(() => {
      const locks = createLocks(fromConfig({ pool, strategy: config.strategy }), { ttlMs: scaled(1_000) })
      onTestFinished(() => locks.close())
      return locks
    })
    if (holder === undefined || waiter === undefined) throw new Error('no clients')
    const lock = `trap-11:${config.strategy}`
    const lease = await holder.lock(lock).acquire()
    const waits = contended(waiter, lock)
    const turns = Array.from({ length: 5 }, () =>
      waiter.with(lock, { waitMs: scaled(20_000) }, () => undefined),
    )
    await waits
    await lease.extend()
    await holder.with(`${lock}:other`, () => undefined)
    await lease.release()
    await Promise.all(turns)
    expect(pool.totalCount).toBe(1)
  })
})

test('a listening connection that is ended is opened again, and the wait goes on', async () => {
  const control = await connect(server)
  const [holder, waiter] = [open(uniqueKey), open(uniqueKey)]
  const lease = await holder.lock('deaf').acquire()
  const waits = contended(waiter, 'deaf')
  const turn = waiter.lock('deaf').acquire({ waitMs: scaled(10_000) })
  await waits
  await control.query(`SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
    AND objid IN (SELECT (listener & 4294967295)::oid FROM locks_waiters)`)
  await lease.release()
  expect((await turn).fence).toBe(lease.fence + 1n)
})

test('a listening connection that is lost while its waiter still asks ends the wait at once', async () => {
  const [control, blocking] = [await connect(server), await connect(server)]
  const [holder, waiter] = [bare(uniqueKey), bare(uniqueKey)]
  await holder.take(holder.request('deaf meanwhile'))
  const request = waiter.request('deaf meanwhile', { willWait: true })
  // From now on it listens.
  expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
  await blocking.query('BEGIN')
  await blocking.query("SELECT FROM locks WHERE name = 'deaf meanwhile' FOR UPDATE")
  const asked = waiter.adapter.attempt(request)
  const asks =
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%locks_attempt%'"
  await eventually('it asks', async () => (await control.query(asks)).rows.length > 0)
  const listening = `FROM pg_locks WHERE locktype = 'advisory'
    AND objid IN (SELECT (listener & 4294967295)::oid FROM locks_waiters WHERE name = 'deaf meanwhile')`
  await control.query(`SELECT pg_terminate_backend(pid) ${listening}`)
  await eventually('it is deaf', async () => (await control.query(`SELECT ${listening}`)).rows.length === 0)
  await blocking.query('ROLLBACK')
  expect(await asked).toMatchObject({ busy: true })
  const startedAt = performance.now()
  expect(await waiter.adapter.wait?.(request, scaled(10_000), never)).toBeUndefined()
  await assertInTime('the answer', 5_000, performance.now() - startedAt)
})

/** A proxy that can forget the connections that listen, as a NAT does: nothing passes, and nobody is told. */
async function forgetful(): Promise<{
  readonly url: string
  readonly forget: () => void
  /** From now on LISTEN gets no answer. */
  readonly mute: () => void
}> {
  let muted = false
  const listening = new Set<Socket>()
  const forgotten = new Set<Socket>()
  const proxy = createServer((client) => {
    const behind = connectTo(server.port, server.host)
    const pass = (from: Socket, to: Socket): void => {
      from.on('error', () => undefined).on('close', () => to.destroy())
      from.on('data', (bytes) => void (forgotten.has(client) || to.write(bytes)))
    }
    client.on('data', (bytes) => {
      if (!bytes.includes('LISTEN')) return
      listening.add(client)
      if (muted) forgotten.add(client)
    })
    pass(client, behind)
    pass(behind, client)
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const address = proxy.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  return {
    url,
    forget: () => listening.forEach((client) => forgotten.add(client)),
    mute: () => void (muted = true),
  }
}

test(
  'a listening connection that died silently is found out by whoever waits next, and opened again',
  async () => {
    const { url, forget } = await forgetful()
    let aheadMs = 0
    const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }
    const [holder, waiter] = [bare(uniqueKey), bare({ ...uniqueKey, url }, { clock })]
    const held = await holder.take(holder.request('forgotten', { ttlMs: scaled(120_000) }))
    const request = waiter.request('forgotten', { willWait: true })
    const patienceMs = scaled(12_000)
    // From now on it listens.
    expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
    forget()
    aheadMs = 10_000
    expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
    expect(await waiter.adapter.wait?.(request, patienceMs, never)).toBeUndefined()
    expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
    await holder.adapter.release(held)
    expect(await waiter.adapter.wait?.(request, patienceMs, never)).toMatchObject({ fence: held.fence + 1n })
  },
  scaled(40_000),
)

test('a server that does not come to the end of LISTEN keeps no waiter from its turn', async () => {
  // Behind a long queue of notifications a new listener has to read all of it first.
  const { url, mute } = await forgetful()
  mute()
  const [holder, waiter] = [open(uniqueKey), open({ url })]
  const lease = await holder.lock('long queue').acquire()
  const waits = contended(waiter, 'long queue')
  const turn = waiter.lock('long queue').acquire({ waitMs: scaled(20_000) })
  await Promise.race([waits, turn])
  await lease.release()
  expect((await turn).fence).toBe(lease.fence + 1n)
})

test('a waiter without a connection for LISTEN polls, and gets its turn', async () => {
  const control = await connect(server)
  await control.query('CREATE ROLE crowded LOGIN CONNECTION LIMIT 1')
  await control.query('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO crowded')
  const crowded = { url: server.url.replace('postgres@', 'crowded@'), poolSize: 1 }
  const [holder, waiter] = [bare(uniqueKey), bare(crowded)]
  const held = await holder.take(holder.request('crowded'))
  const request = waiter.request('crowded', { willWait: true })
  expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
  const startedAt = performance.now()
  expect(await waiter.adapter.wait?.(request, 300, never)).toBeUndefined()
  expect(performance.now() - startedAt).toBeGreaterThan(290)
  await waiter.adapter.withdraw(request)
  const turn = open(crowded)
    .lock('crowded')
    .acquire({ waitMs: scaled(20_000) })
  await waiter.adapter.close()
  await holder.adapter.release(held)
  expect((await turn).fence).toBe(held.fence + 1n)
})

test('without LISTEN waiters poll, and capabilities say so', async () => {
  const config = { url: `${server.url}?listen=false` }
  const [holder, waiter] = [open(config), open(config)]
  expect(holder.capabilities).toMatchObject({ wait: 'poll', fairness: 'none' })
  const lease = await holder.lock('polled').acquire()
  const waits = contended(waiter, 'polled')
  const turn = waiter.lock('polled').acquire({ waitMs: scaled(10_000) })
  await waits
  await lease.release()
  await (await turn).release()
})

test('a fence that a newcomer passed on is flushed, a mere "busy" is not', async () => {
  const control = await connect(server)
  const [holder, waiter] = [bare(uniqueKey), bare(uniqueKey)]
  const held = await holder.take(holder.request('passed on'))
  expect(await waiter.adapter.attempt(waiter.request('passed on', { willWait: true }))).toMatchObject({
    busy: true,
  })
  const newcomer = async (): Promise<unknown> => {
    await control.query('BEGIN')
    const { rows } = await control.query(`SELECT o_granted AS granted, o_fence::int AS fence
      FROM locks_attempt('passed on', 'newcomer', '{}', 30000, 0, 5000, NULL, NULL, true)`)
    const { rows: settings } = await control.query('SHOW synchronous_commit')
    await control.query('ROLLBACK')
    return { ...rows[0], ...settings[0] }
  }
  const fence = Number(held.fence)
  expect(await newcomer()).toEqual({ granted: false, fence, synchronous_commit: 'off' })
  await control.query("UPDATE locks SET expires_at = now(), blocked_until = now() WHERE name = 'passed on'")
  expect(await newcomer()).toEqual({ granted: false, fence: fence + 1, synchronous_commit: 'on' })
})

test(
  'fences are durable whatever the server thinks of synchronous_commit',
  { timeout: scaled(120_000) },
  async () => {
    const control = await connect(server)
    await control.query('ALTER ROLE postgres SET synchronous_commit = off')
    const locks = createLocks(postgres({ url: server.url }))
    onTestFinished(() => locks.close())
    const fences: bigint[] = []
    for (let round = 0; round < 3; round += 1) {
      for (let n = 0; n < 20; n += 1)
        await locks.with('durable', { waitMs: scaled(20_000) }, ({ fence }) => void fences.push(fence))
      await server.restart({ hard: true })
    }
    await locks.with('durable', { waitMs: scaled(20_000) }, ({ fence }) => void fences.push(fence))
    expect(fences).toEqual(fences.toSorted((a, b) => (a < b ? -1 : 1)))
    expect(new Set(fences).size).toBe(fences.length)
    const again = await connect(server)
    await again.query('ALTER ROLE postgres RESET synchronous_commit')
  },
)
