import { systemClock } from '@locks/core/adapter'
import { assertInTime } from '@locks/core/conformance'
import { once } from 'node:events'
import { connect as connectTo, createServer } from 'node:net'
import type { Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { bare, connect, contended, never, open, startServer } from './support/setup.ts'

const server = await startServer({ max_connections: 60 })
const uniqueKey = { url: server.url, strategy: 'unique-key' }

test('a listening connection that ended is opened again, and the wait goes on', async () => {
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

test('a listening connection lost while its waiter asks the store ends the wait at once', async () => {
  const [control, blocking] = [await connect(server), await connect(server)]
  const [holder, waiter] = [bare(uniqueKey), bare(uniqueKey)]
  await holder.take(holder.request('deaf meanwhile'))
  const request = waiter.request('deaf meanwhile', { willWait: true })
  // Listens from now on.
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

/** A proxy that can forget listening connections as a NAT does: it drops their packets silently. */
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
  'a listening connection that died silently is found by the next waiter, and opened again',
  async () => {
    const { url, forget } = await forgetful()
    let aheadMs = 0
    const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }
    const [holder, waiter] = [bare(uniqueKey), bare({ ...uniqueKey, url }, { clock })]
    const held = await holder.take(holder.request('forgotten', { ttlMs: scaled(120_000) }))
    const request = waiter.request('forgotten', { willWait: true })
    const patienceMs = scaled(12_000)
    // Listens from now on.
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

test('a waiter gets its turn although the server does not answer LISTEN', async () => {
  // With a long queue of notifications a new listener has to read all of them first.
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

test('without a spare connection to listen on, a waiter polls and gets its turn', async () => {
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
