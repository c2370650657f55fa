import { expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { bare, connect, contended, open, startServer } from './setup.ts'

const server = await startServer()
const config = { url: server.url }

test('a hold that was broken and used by another since ends as lost, although the name is free', async () => {
  const [holder, operator, other] = [open(config), open(config), open(config)]
  const lease = await holder.lock('broken').acquire()
  await operator.lock('broken').break()
  await other.with('broken', () => undefined)
  await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
  const work = holder.with('broken', async () => {
    await operator.lock('broken').break()
    await other.with('broken', () => undefined)
  })
  await expect(work).rejects.toMatchObject({ code: 'LOCK_LOST' })
})

test('a release of what is free, never was, has expired or is held by another is not held', async () => {
  const [client, other] = [bare(config), bare(config)]
  const grant = await client.take(client.request('once'))
  expect(await client.adapter.release(grant)).toBe('released')
  expect(await client.adapter.release(grant)).toBe('not-held')
  expect(await client.adapter.release({ ...grant, name: 'never' })).toBe('not-held')
  const taken = await other.take(other.request('once'))
  expect(await client.adapter.release(grant)).toBe('not-held')
  expect(await other.adapter.release(taken)).toBe('released')
  const control = await connect(server)
  const expired = await client.take(client.request('once'))
  await control.query("UPDATE locks SET expires_at = now(), blocked_until = now() WHERE name = 'once'")
  expect(await client.adapter.release(expired)).toBe('not-held')
})

test('the text of a lease with anything but an attempt id in it continues nothing', async () => {
  const [from, to] = [bare(config), bare(config)]
  const grant = await from.take(from.request('forged'))
  for (const attemptId of ['', 'hold', '\0', `${grant.attemptId}0x`, `${grant.attemptId} `])
    expect(await to.adapter.adopt?.({ ...grant, attemptId }, to.request('forged'))).toBe('lost')
  for (const fence of [0n, -1n, 2n ** 63n, 2n ** 64n])
    expect(await to.adapter.adopt?.({ ...grant, fence }, to.request('forged'))).toBe('lost')
  expect(await to.adapter.adopt?.(grant, to.request('forged'))).toMatchObject({ fence: grant.fence })
})

// What a server does whose NOTIFY queue is full: the transaction fails as it commits.
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
      const text = 'UPDATE locks SET expires_at = now(), blocked_until = now() WHERE name = $1'
      await control.query(text, [Buffer.from(name)])
      expect(await holder.take(holder.request(name))).toMatchObject({ fence: fence + 1n })
      continue
    }
    expect(await holder.adapter.inspect(name)).toMatchObject({ held: false })
  }
  await control.query('DROP FUNCTION full_queue CASCADE')
})
