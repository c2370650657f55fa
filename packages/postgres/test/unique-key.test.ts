import { createLocks } from '@locks/core'
import { fromConfig, postgres } from '@locks/postgres'
import { Pool } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { atLength } from '../../../conformance/selection.ts'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { seen } from '../../../conformance/test-support/seen.ts'
import { withdrawalTests } from '../../sql/test/support/withdrawal-tests.ts'
import { bare, connect, contended, open, startServer } from './support/setup.ts'

const server = await startServer({ max_connections: 60 })
const uniqueKey = { url: server.url, strategy: 'unique-key' }
const row = { url: server.url, strategy: 'row' }

test('a lease in a table outlives the crash of a backend', async () => {
  const control = await connect(server)
  const locks = open(uniqueKey)
  const lease = await locks.lock('crash').acquire()
  const { rows } = await control.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  await server.signal(rows[0]?.pid ?? NaN, 'SIGKILL')
  const other = open(uniqueKey)
  const { holder } = await eventually('the server is back', () => other.inspect('crash'))
  expect(holder?.fence).toBe(lease.fence)
  expect(await other.lock('crash').tryAcquire()).toBeNull()
  await lease.extend()
  await lease.release()
  await (await other.lock('crash').acquire()).release()
})

test.each(['40001', '40P01', '23505', '55P03'])(
  '%s is tried again, and the caller does not notice',
  async (code) => {
    const control = await connect(server)
    // Fails two of three statements that grant a lock of this name: sequences do not roll back.
    await control.query(`CREATE SEQUENCE fails_${code};
CREATE FUNCTION fail_${code}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF nextval('fails_${code}') % 3 <> 0 THEN RAISE EXCEPTION 'injected' USING ERRCODE = '${code}'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER fail_${code} BEFORE INSERT OR UPDATE ON locks FOR EACH ROW
  WHEN (NEW.name = 'fails:${code}' AND NEW.attempt IS NOT NULL) EXECUTE FUNCTION fail_${code}()`)
    const locks = open(uniqueKey)
    for (let n = 0; n < 5; n += 1) {
      const lease = await locks.lock(`fails:${code}`).tryAcquire()
      expect(lease).not.toBeNull()
      await lease?.release()
    }
    await control.query(`DROP TRIGGER fail_${code} ON locks`)
  },
)

describe.each([uniqueKey, row])('$strategy', (config) => {
  test(
    'of two clients on a missing row one wins and the other is busy, many times',
    async () => {
      const [a, b] = [bare(config), bare(config)]
      for (let round = 0; round < atLength(100, 1_000); round += 1) {
        const lock = `missing:${round}`
        const answers = await Promise.all([
          a.adapter.attempt(a.request(lock)),
          b.adapter.attempt(b.request(lock)),
        ])
        const [won, ...more] = answers.filter((answer) => 'fence' in answer)
        expect(more).toEqual([])
        expect(won).toBeDefined()
        if (won !== undefined)
          expect(await (answers[0] === won ? a : b).adapter.release(won)).toBe('released')
      }
    },
    scaled(180_000),
  )

  test('an open transaction of the program in its pool is never touched', async () => {
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
    for (let n = 0; n < 5; n += 1) await locks.with(`own:${config.strategy}`, () => undefined)
    expect(await xid()).toEqual(before)
    await own.query('ROLLBACK')
    expect((await own.query('SELECT * FROM mine')).rows).toEqual([])
    own.release()
  })

  test('a pool of one connection does not deadlock', async () => {
    const pool = new Pool({ connectionString: server.url, max: 1 })
    onTestFinished(() => pool.end())
    const [holder, waiter] = [1, 2].map(() => {
      const locks = createLocks(fromConfig({ pool, strategy: config.strategy }), { ttlMs: scaled(1_000) })
      onTestFinished(() => locks.close())
      return locks
    })
    if (holder === undefined || waiter === undefined) throw new Error('no clients')
    const lock = `one:${config.strategy}`
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

withdrawalTests(() => open(uniqueKey))

test.each([
  ['comes after', 30_000],
  ['is repeated after', 200],
])('the withdrawal of an aborted acquire %s a slow grant', async (_order, storeTimeoutMs) => {
  const control = await connect(server)
  // Grants of this name take a second, in which the row is not locked.
  await control.query(`CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  PERFORM pg_sleep(1); RETURN NEW; END $$;
CREATE TRIGGER dawdle BEFORE UPDATE ON locks FOR EACH ROW
  WHEN (NEW.name = 'slow' AND NEW.attempt IS NOT NULL) EXECUTE FUNCTION dawdle()`)
  onTestFinished(async () => void (await control.query('DROP FUNCTION dawdle CASCADE')))
  const name = Buffer.from('slow')
  await control.query(
    'INSERT INTO locks (name, fence) VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET fence = 1',
    [name],
  )
  const locks = open(uniqueKey, { storeTimeoutMs })
  const controller = new AbortController()
  // Not part of the time that the acquire has.
  await eventually('a connection', () => locks.inspect('slow'))
  const tried = locks.lock('slow').acquire({ signal: controller.signal })
  tried.catch(() => undefined)
  const asleep = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
  const isAsleep = async (): Promise<boolean> => (await control.query(asleep)).rows.length > 0
  const raised = 'SELECT 1 FROM locks WHERE name = $1 AND fence = 2'
  const over = eventually('it is granted', async () => (await control.query(raised, [name])).rows.length > 0)
  await seen('it is being granted', { lastsMs: 1_000, over }, isAsleep)
  controller.abort('enough')
  await expect(tried).rejects.toBeDefined()
  // The grant raises the fence. Its ttl is far longer than this waits, so only a withdrawal frees the name.
  const freed = 'SELECT 1 FROM locks WHERE name = $1 AND fence = 2 AND attempt IS NULL'
  await eventually('it is withdrawn', async () => (await control.query(freed, [name])).rows.length > 0)
})

test('a fence that an attempt passed on is flushed, a "busy" is not', async () => {
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

test('fences are durable although synchronous_commit is off', { timeout: scaled(120_000) }, async () => {
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
})
