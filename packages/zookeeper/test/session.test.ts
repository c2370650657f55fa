import { zookeeper } from '@locks/zookeeper'
import { createLocks } from '@locks/core'
import { assertInTime, startChild } from '@locks/core/conformance'
import { expect, test } from 'vitest'
import { lossOf } from '../../../conformance/test-support/clients.ts'
import { expectRefusedAtOnce } from '../../../conformance/test-support/refusals.ts'
import { directory, lockName, testBed } from './support/bed.ts'
import { expectLoss, ms, pass, rawClient, until } from './support/raw-client.ts'

// The end of a session is rounded up to a tick: a short tick leaves a busy machine more of the promised half second.
const bed = testBed('zookeeper', { tickTime: 50 })
const sessionTimeoutMs = ms(2_000)

test('a holder that is cut off is in jeopardy, then lost, before another client is granted the lock', async () => {
  const { locks, proxy } = await bed.wired({ sessionTimeoutMs })
  const other = bed.open({ sessionTimeoutMs })
  const name = lockName()
  const states: string[] = []
  locks.on('jeopardy', () => states.push('jeopardy'))
  locks.on('lost', () => states.push('lost'))
  const lease = await locks.lock(name).acquire()
  const lost = lossOf(lease)
  const granted = other
    .lock(name)
    .acquire({ waitMs: sessionTimeoutMs * 5 })
    .then((next) => {
      // By the clock of the holder: whether its timer or this answer comes first after a pause does not matter.
      expect(() => lease.assertHeld()).toThrow('lost')
      return { next, at: performance.now() }
    })
  granted.catch(() => undefined)
  await until('the other client waits', 5_000, async () => (await other.inspect(name)).waiters === 1)
  const connections = proxy.stats.connections
  lease.assertHeld()
  const cutAt = performance.now()
  proxy.blackhole()
  const lostAt = await lost
  const { next, at } = await granted
  await expectLoss(states, cutAt, sessionTimeoutMs / 2)
  await assertInTime('the holder learns of it', sessionTimeoutMs, lostAt - cutAt)
  await assertInTime('granted to the next', sessionTimeoutMs + 500, at - cutAt)
  expect(next.fence).toBeGreaterThan(lease.fence)
  // The library keeps a silent socket; the adapter does not.
  expect(proxy.stats.connections).toBeGreaterThan(connections)
})

test('a killed holder blocks its lock for its session timeout and at most half a second more', async () => {
  const child = await startChild()
  const name = lockName()
  try {
    const config = { adapter: '@locks/zookeeper', servers: bed.servers, sessionTimeoutMs }
    await child.call('open', { config, options: {} })
    await child.call('acquire', { lock: name })
    const other = bed.open()
    const waiting = other.lock(name).acquire({ waitMs: ms(30_000) })
    await until('it waits', 10_000, async () => (await other.inspect(name)).waiters === 1)
    const killedAt = performance.now()
    await child.kill()
    await waiting
    await assertInTime('granted to the next', sessionTimeoutMs + 500, performance.now() - killedAt)
  } finally {
    await child.kill()
  }
})

test('a waiter whose connection was silent for a while keeps its place in the queue', async () => {
  const { locks, proxy } = await bed.wired({ sessionTimeoutMs: ms(9_000) }, { storeTimeoutMs: ms(20_000) })
  const [holder, behind] = [bed.open(), bed.open()]
  const name = lockName()
  const lease = await holder.lock(name).acquire()
  const order: string[] = []
  const first = locks
    .lock(name)
    .acquire({ waitMs: ms(30_000) })
    .then(async (mine) => {
      order.push('first')
      await mine.release()
    })
  await until('one waits', 5_000, async () => (await holder.inspect(name)).waiters === 1)
  const second = behind
    .lock(name)
    .acquire({ waitMs: ms(30_000) })
    .then(() => order.push('second'))
  await until('two wait', 5_000, async () => (await holder.inspect(name)).waiters === 2)
  const { connections } = proxy.stats
  proxy.blackhole()
  await until('it has noticed', 10_000, () => proxy.stats.connections > connections)
  proxy.pass()
  await lease.release()
  await Promise.all([first, second])
  expect(order).toEqual(['first', 'second'])
})

test('a client whose only hold was lost keeps its session through an outage, like a waiter', async () => {
  const [proxy, raw] = [await bed.proxy(), await bed.raw()]
  const { adapter, reports, request, take } = bed.adapter({ sessionTimeoutMs: ms(8_000) }, proxy)
  const name = lockName()
  const grant = await take(request(name))
  const [node] = (await raw.children(directory(name))) ?? []
  await raw.remove(`${directory(name)}/${node}`)
  expect(await adapter.renew([{ grant, ttlMs: grant.ttlMs, lockDelayMs: 0 }])).toEqual(['lost'])
  proxy.refuse()
  const outSince = performance.now()
  // Longer than a hold can be relied on, shorter than the session.
  await pass(4_800)
  proxy.pass()
  await until('the outage is over', 10_000, () => reports.at(-1) !== 'jeopardy')
  if (reports.includes('lost')) await assertInTime('the outage', ms(7_000), performance.now() - outSince)
  expect(reports).not.toContain('lost')
  await until(
    'the directory is gone',
    10_000,
    async () => (await raw.children(directory(name))) === undefined,
  )
})

test('after a lost session all its leases are lost together, and none is restored', async () => {
  const { locks, proxy } = await bed.wired({ sessionTimeoutMs })
  const raw = await bed.raw()
  const names = [lockName('a'), lockName('b'), lockName('c')]
  const leases = await Promise.all(names.map((name) => locks.lock(name).acquire()))
  const losses = leases.map(lossOf)
  proxy.blackhole()
  const times = await Promise.all(losses)
  // They are renewed together, so only the time between their grants can separate them.
  await assertInTime('all of them', sessionTimeoutMs / 3, Math.max(...times) - Math.min(...times))
  for (const name of names)
    await until('the server ended it', 10_000, async () => !(await raw.children(directory(name)))?.length)
  proxy.pass()
  const fresh = await until('a new session', 10_000, () =>
    locks
      .lock(names[0] ?? '')
      .acquire()
      .catch(() => undefined),
  )
  expect(fresh.fence).toBeGreaterThan(leases[0]?.fence ?? 0n)
  for (const lease of leases) expect(() => lease.assertHeld()).toThrow('lost')
  expect((await raw.children(directory(names[1] ?? ''))) ?? []).toEqual([])
  await fresh.release()
})

test('a session of a given client that ended during an outage is lost as soon as the server is reached', async () => {
  const proxy = await bed.proxy()
  const own = await rawClient(`${proxy.host}:${proxy.port}`)
  const locks = createLocks(zookeeper({ client: own.client }))
  const name = lockName()
  const lease = await locks.lock(name).acquire()
  const lost = lossOf(lease)
  const { client } = own
  const session = { sessionId: client.getSessionId(), sessionPassword: client.getSessionPassword() }
  proxy.refuse()
  const other = await rawClient(bed.servers, session)
  await other[Symbol.asyncDispose]()
  proxy.pass()
  const passedAt = performance.now()
  // Long before its own clock would end it.
  await assertInTime('the loss', 3_000, (await lost) - passedAt)
  // The given client makes no other session.
  await expect(locks.lock(name).acquire()).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  await expectRefusedAtOnce(zookeeper({ client }), /session of the given client is over.*; pass a new client/)
  await locks.close()
})

test("the user's client is used as it is, and left open", async () => {
  const own = await rawClient(bed.servers)
  const locks = createLocks(zookeeper({ client: own.client }))
  const other = bed.open()
  const name = lockName()
  const lease = await locks.lock(name).acquire()
  expect(await other.lock(name).tryAcquire()).toBeNull()
  await lease.release()
  await locks.close()
  expect(await own.children('/')).toContain('locks')
  await own[Symbol.asyncDispose]()
})

test('a short break of the connection costs no lock', async () => {
  const { locks, proxy } = await bed.wired({ sessionTimeoutMs: ms(6_000) })
  const name = lockName()
  const states: string[] = []
  locks.on('jeopardy', () => states.push('jeopardy'))
  const lease = await locks.lock(name).acquire()
  proxy.reset()
  await until('jeopardy', 10_000, () => states.length > 0)
  await until('held again', 10_000, () => lease.state === 'held')
  // Longer than a session without signs of life.
  await pass(7_000)
  lease.assertHeld()
  expect((await locks.inspect(name)).holder?.fence).toBe(lease.fence)
  await lease.release()
})
