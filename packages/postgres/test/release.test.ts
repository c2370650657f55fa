import { expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { releaseTests } from '../../sql/test/support/release-tests.ts'
import { bare, connect, contended, never, open, startServer } from './support/setup.ts'

const server = await startServer()
const config = { url: server.url }

const expire = 'UPDATE locks SET expires_at = now(), blocked_until = now() WHERE name = $1'

releaseTests({
  open: () => open(config),
  bare: () => bare(config),
  expire: async (name) => (await connect(server)).query(expire, [Buffer.from(name)]),
})

// Acts like a server whose NOTIFY queue is full: the transaction fails when it commits.
const fullQueue = `CREATE FUNCTION full_queue() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE EXCEPTION 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000';
END $$;
CREATE CONSTRAINT TRIGGER full_queue AFTER UPDATE ON locks DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (OLD.attempt IS NOT NULL AND NEW.attempt IS NOT NULL AND NEW.attempt <> OLD.attempt)
  EXECUTE FUNCTION full_queue()`

test('a release frees the name although no waiter can be notified', async () => {
  const control = await connect(server)
  const [holder, waiter, other] = [open(config), open(config), open(config)]
  const lease = await holder.lock('full').acquire({ ttlMs: scaled(3_000) })
  const waits = contended(waiter, 'full')
  const turn = waiter.lock('full').acquire({ waitMs: scaled(60_000) })
  await waits
  await control.query(fullQueue)
  await lease.release()
  expect(await other.inspect('full')).toMatchObject({ held: false })
  // A newcomer is served, and so is the waiter, once the hold that it saw would have ended.
  const next = await other.lock('full').tryAcquire()
  expect(next?.fence).toBe(lease.fence + 1n)
  await control.query('DROP FUNCTION full_queue CASCADE')
  await next?.release()
  expect((await turn).fence).toBe(lease.fence + 2n)
})

test('a break and a withdrawal end a hold although no waiter can be notified', async () => {
  const control = await connect(server)
  const [holder, waiter] = [bare(config), bare(config)]
  await control.query(fullQueue)
  for (const name of ['broken', 'withdrawn', 'expired']) {
    const request = holder.request(name)
    const { fence } = await holder.take(request)
    expect(await waiter.adapter.attempt(waiter.request(name, { willWait: true }))).toMatchObject({
      busy: true,
    })
    if (name === 'broken') expect(await holder.adapter.break?.(name, { owner: '', fence })).toBe('broken')
    else if (name === 'withdrawn') await holder.adapter.withdraw(request)
    else {
      await control.query(expire, [Buffer.from(name)])
      expect(await holder.take(holder.request(name))).toMatchObject({ fence: fence + 1n })
      continue
    }
    expect(await holder.adapter.inspect(name)).toMatchObject({ held: false })
  }
  await control.query('DROP FUNCTION full_queue CASCADE')
})

test('thousands of waiters whose connections are gone do not stop a hand-off', async () => {
  const control = await connect(server)
  const [holder, waiter] = [bare({ url: server.url }), bare({ url: server.url })]
  const held = await holder.take(holder.request('crash'))
  const request = waiter.request('crash', { willWait: true })
  expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
  // Each from another process, and all before the one that lives.
  const { rows } = await control.query<{ room: number }>(
    `SELECT current_setting('max_locks_per_transaction')::int * current_setting('max_connections')::int AS room`,
  )
  const dead = 2 * (rows[0]?.room ?? NaN)
  await control.query(
    `INSERT INTO locks_waiters (name, position, attempt, holder, ttl_ms, delay_ms, claim_ms, listener, secret)
    SELECT 'crash', -n, 'gone:' || n, holder, ttl_ms, delay_ms, claim_ms, n, 'secret'
    FROM locks_waiters, generate_series(1, $1::int) n WHERE name = 'crash'`,
    [dead],
  )
  expect(await holder.adapter.release(held)).toBe('released')
  expect(await waiter.adapter.wait?.(request, scaled(10_000), never)).toMatchObject({
    fence: held.fence + 1n,
  })
})
