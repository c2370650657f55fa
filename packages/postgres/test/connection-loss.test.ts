import { isLockError } from '@locks/core'
import { assertInTime, startFaultProxy } from '@locks/core/conformance'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { bare, connect, contended, lossOf, never, open, startServer } from './support/setup.ts'

// Settings that would end a holder or a waiter, if the adapter did not override them.
const server = await startServer({
  max_connections: 60,
  idle_in_transaction_session_timeout: 400,
  lock_timeout: 100,
  statement_timeout: 2_000,
})
const row = { url: server.url, strategy: 'row', sessionTtlMs: scaled(3_000) }

const backendOf = 'SELECT pid FROM locks_holders WHERE name = $1'

async function pidOf(control: Client, lock: string): Promise<number> {
  const { rows } = await control.query<{ pid: number }>(backendOf, [Buffer.from(lock)])
  return rows[0]?.pid ?? NaN
}

test('a holder whose connection is terminated has lost the lock, and its successor gets it', async () => {
  const control = await connect(server)
  const [holder, next] = [open(row), open(row)]
  const took: number[] = []
  for (let round = 0; round < 5; round += 1) {
    const lock = `terminated:${round}`
    const lease = await holder.lock(lock).acquire()
    const lost = lossOf(lease)
    const waits = contended(next, lock)
    const turn = next.lock(lock).acquire({ waitMs: scaled(20_000) })
    await waits
    const pid = await pidOf(control, lock)
    const start = performance.now()
    await control.query('SELECT pg_terminate_backend($1)', [pid])
    const successor = await turn
    took.push(performance.now() - start)
    await lost
    expect(lease.state).toBe('lost')
    expect(successor.fence).toBeGreaterThan(lease.fence)
    await successor.release()
  }
  // Of several tries: a busy machine slows some of them.
  await assertInTime('the fastest of them', 150, Math.min(...took))
})

test('killing one backend ends every session, and so every hold', async () => {
  const control = await connect(server)
  const [one, two] = [open(row), open(row)]
  const [a, b] = [await one.lock('crash:a').acquire(), await two.lock('crash:b').acquire()]
  const losses = [lossOf(a), lossOf(b)]
  await server.signal(await pidOf(control, 'crash:a'), 'SIGKILL')
  await Promise.all(losses)
  expect([a.state, b.state]).toEqual(['lost', 'lost'])
  const again = await two.lock('crash:a').acquire({ waitMs: scaled(20_000) })
  expect(again.fence).toBeGreaterThan(a.fence)
})

test('the idle time-out of the server does not end a holder that renews', async () => {
  const locks = open(row)
  const lease = await locks.lock('idle').acquire()
  const periods = scaled(3_000)
  await new Promise((resolve) => setTimeout(resolve, periods))
  lease.assertHeld()
  await lease.release()
})

test('a connection that ended unnoticed is found by the next probe', async () => {
  const proxy = await startFaultProxy({ host: server.host, port: server.port })
  onTestFinished(() => proxy.close())
  const control = await connect(server)
  const url = `postgres://postgres@${proxy.host}:${proxy.port}/postgres`
  const locks = open({ ...row, url })
  const lease = await locks.lock('unnoticed').acquire()
  const lost = lossOf(lease)
  // No reply arrives any more, not even that of the end.
  proxy.blackhole('replies')
  await control.query('SELECT pg_terminate_backend($1)', [await pidOf(control, 'unnoticed')])
  const endedAt = performance.now()
  await assertInTime('the holder notices', row.sessionTtlMs, (await lost) - endedAt)
  proxy.pass()
})

test('a connection that is killed is noticed within a third of the ttl', async () => {
  const control = await connect(server)
  const locks = open(row)
  const lease = await locks.lock('killed').acquire()
  const lost = lossOf(lease)
  const killedAt = performance.now()
  await control.query('SELECT pg_terminate_backend($1)', [await pidOf(control, 'killed')])
  await assertInTime('the holder notices', row.sessionTtlMs / 3, (await lost) - killedAt)
})

test("the server's lock_timeout and statement_timeout do not end a wait", async () => {
  const [holder, waiter] = [open(row), open(row)]
  const lease = await holder.lock('timeouts').acquire()
  const waits = contended(waiter, 'timeouts')
  const turn = waiter.lock('timeouts').acquire({ waitMs: scaled(20_000) })
  await waits
  await new Promise((resolve) => setTimeout(resolve, 2_500))
  await lease.release()
  expect((await turn).fence).toBeGreaterThan(lease.fence)
})

test('a wait that times out as the grant arrives leaves nothing behind', async () => {
  const [holder, waiter] = [bare(row), bare(row)]
  for (let round = 0; round < 30; round += 1) {
    const lock = `landing:${round}`
    const held = await holder.take(holder.request(lock))
    const request = waiter.request(lock, { willWait: true })
    await waiter.adapter.attempt(request)
    const waiting = waiter.adapter.wait?.(request, 1 + (round % 5), never)
    const released = holder.adapter.release(held)
    await Promise.all([waiting, released])
    await waiter.adapter.withdraw(request)
    const next = await holder.take(holder.request(lock))
    await holder.adapter.release(next)
  }
})

test('a transaction of another program on the row delays a try, and is neither busy nor an error', async () => {
  const control = await connect(server)
  const client = bare(row)
  const before = await client.take(client.request('stranger'))
  await client.adapter.release(before)
  await control.query('SET idle_in_transaction_session_timeout = 0')
  await control.query('BEGIN')
  await control.query("SELECT FROM locks_rows WHERE name = 'stranger' FOR UPDATE")
  const tried = client.take(client.request('stranger'))
  await new Promise((resolve) => setTimeout(resolve, 500))
  await control.query('COMMIT')
  expect((await tried).fence).toBeGreaterThan(before.fence)
})

test('too many connections are an outage for new clients, and do not affect holders', async () => {
  const locks = open({ ...row, poolSize: 1 }, { storeTimeoutMs: scaled(1_000) })
  const lease = await locks.lock('crowd').acquire()
  const crowd: Client[] = []
  for (;;) {
    const client = new Client({ connectionString: server.url })
    client.on('error', () => undefined)
    try {
      await client.connect()
      crowd.push(client)
    } catch {
      break
    }
  }
  const newcomer = open(row, { storeTimeoutMs: scaled(500) })
  const refused = await newcomer
    .lock('crowd:new')
    .tryAcquire()
    .catch((error: unknown) => error)
  expect(isLockError(refused, 'LOCK_UNAVAILABLE')).toBe(true)
  await lease.extend()
  lease.assertHeld()
  await lease.release()
  await Promise.all(crowd.map((client) => client.end()))
  await eventually('there are free connections', async () => {
    await newcomer.with('crowd:new', () => undefined)
    return true
  })
})

test('a holder that is dead behind a live proxy is ended by the server after its ttl', async () => {
  const proxy = await startFaultProxy({ host: server.host, port: server.port })
  onTestFinished(() => proxy.close())
  const dead = bare({ ...row, url: `postgres://postgres@${proxy.host}:${proxy.port}/postgres` })
  const held = await dead.take(dead.request('dead'))
  proxy.blackhole()
  const start = performance.now()
  const next = await open(row)
    .lock('dead')
    .acquire({ waitMs: row.sessionTtlMs * 3 })
  await assertInTime('the end', row.sessionTtlMs + 1_000, performance.now() - start)
  expect(next.fence).toBeGreaterThan(held.fence)
  await next.release()
  proxy.pass()
})
