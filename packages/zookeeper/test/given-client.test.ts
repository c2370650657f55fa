import { createLocks } from '@locks/core'
import type { Busy, Grant } from '@locks/core/adapter'
import { openTestAdapter } from '@locks/core/conformance'
import { zookeeper } from '@locks/zookeeper'
import { State } from 'node-zookeeper-client'
import { expect, onTestFinished, test } from 'vitest'
import { leakWarnings, listenersOf } from '../../../conformance/test-kit/listeners.ts'
import { directory, lockName, testBed } from './bed.ts'
import { ms, pass, rawClient, until } from './support.ts'

const bed = testBed()

/** The library sends again a second after the connection broke; a test that it does not has to let that pass. */
const copyMs = ms(2_500)

/** The nodes of a lock over a while, without repetitions. */
async function observe(
  list: () => Promise<readonly string[] | undefined>,
  { untilSeen = false } = {},
): Promise<readonly string[]> {
  const seen = new Set<string>()
  const endsAt = performance.now() + copyMs
  while (performance.now() < endsAt && !(untilSeen && seen.size > 0)) {
    for (const node of (await list()) ?? []) seen.add(node)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  return [...seen]
}

test('a client that sends requests again by itself makes no second node for a try', async () => {
  const [proxy, raw] = [await bed.proxy(), await bed.raw()]
  await using own = await rawClient(`${proxy.host}:${proxy.port}`, { retries: 5 })
  const { adapter, request, take } = bed.adapter({ client: own.client })
  const name = lockName()
  await adapter.inspect(name)
  const wanted = request(name)
  const swallowed = proxy.swallowNextReply({ matching: (bytes) => bytes.includes('-lock-') })
  await expect(adapter.attempt(wanted)).rejects.toThrow('connection')
  await swallowed
  const nodes = observe(() => raw.children(directory(name)))
  await take(wanted)
  expect(await nodes).toHaveLength(1)
})

test('a node that is granted stays, whoever sent the request that made it', async () => {
  const [proxy, raw] = [await bed.proxy(), await bed.raw()]
  await using own = await rawClient(`${proxy.host}:${proxy.port}`, { retries: 5, sessionTimeout: ms(6_000) })
  const { adapter, request, take } = bed.adapter({ client: own.client })
  const name = lockName()
  await adapter.inspect(name)
  const wanted = request(name)
  proxy.blackhole('requests')
  await expect(adapter.attempt(wanted)).rejects.toThrow('connection')
  proxy.pass()
  await observe(() => raw.children(directory(name)), { untilSeen: true })
  const grant = await take(wanted)
  expect(await observe(() => raw.children(directory(name)))).toHaveLength(1)
  expect(await adapter.renew([{ grant, ttlMs: grant.ttlMs, lockDelayMs: 0 }])).toEqual(['renewed'])
})

test('what a lost lease left in a session that comes back is removed without being asked for', async () => {
  const [proxy, raw] = [await bed.proxy(), await bed.raw()]
  await using own = await rawClient(`${proxy.host}:${proxy.port}`, { sessionTimeout: ms(12_000) })
  const { reports, request, take } = bed.adapter({ client: own.client })
  const name = lockName()
  await take(request(name))
  const session = own.client.getSessionId()
  proxy.refuse()
  await until('it is given up', 15_000, () => reports.includes('lost'))
  expect(await raw.children(directory(name))).toHaveLength(1)
  proxy.pass()
  await until('the node is gone', 20_000, async () => !(await raw.children(directory(name)))?.length)
  await until('a connection', 5_000, () => own.client.getState() === State.SYNC_CONNECTED)
  expect(own.client.getSessionId()).toEqual(session)
})

test('a try made as soon as a loss is told is in the one session there is then, and keeps what it is given', async () => {
  const proxy = await bed.proxy()
  const sessionTimeout = ms(10_000)
  await using own = await rawClient(`${proxy.host}:${proxy.port}`, { sessionTimeout })
  const reports: string[] = []
  let trying: Promise<Grant | Busy> | undefined
  const { adapter, request, take } = openTestAdapter(zookeeper({ client: own.client }), {
    report(state) {
      reports.push(state)
      if (state !== 'lost' || trying !== undefined) return
      proxy.pass()
      trying = adapter.attempt(request(lockName('second')))
    },
  })
  onTestFinished(() => adapter.close())
  await take(request(lockName('first')))
  proxy.refuse()
  const grant = await until('a second try', 15_000, () => trying)
  if (!('fence' in grant)) throw new Error('nobody else wants it')
  // Longer than a session lasts of which nothing is heard.
  await pass(10_500)
  const renew = () => adapter.renew([{ grant, ttlMs: grant.ttlMs, lockDelayMs: 0 }])
  expect(await renew()).toEqual(['renewed'])
  const told = reports.length
  proxy.refuse()
  await until('the outage is noticed', 5_000, () => reports.length > told)
  // Some looks at the clock, and far from the end of the hold.
  await pass(800)
  proxy.pass()
  await until('a connection', 10_000, () => own.client.getState() === State.SYNC_CONNECTED)
  expect(reports.filter((state) => state === 'lost')).toHaveLength(1)
  expect(await renew()).toEqual(['renewed'])
})

test('what could not be removed before the end is removed after it', async () => {
  const [proxy, raw] = [await bed.proxy(), await bed.raw()]
  await using own = await rawClient(`${proxy.host}:${proxy.port}`, { sessionTimeout: 60_000 })
  const { adapter, request, take } = bed.adapter({ client: own.client })
  const name = lockName()
  const grant = await take(request(name))
  proxy.refuse()
  await expect(adapter.release(grant)).rejects.toThrow('connection')
  await adapter.close()
  expect(await raw.children(directory(name))).toHaveLength(1)
  proxy.pass()
  await until('the node is gone', 20_000, async () => !(await raw.children(directory(name)))?.length)
})

test('a client that its user closes loses its leases before anybody else is granted, and all further use', async () => {
  await using own = await rawClient(bed.servers, { sessionTimeout: 30_000 })
  const locks = createLocks(zookeeper({ client: own.client }))
  onTestFinished(() => locks.close())
  const name = lockName()
  const lease = await locks.lock(name).acquire()
  const waiting = bed
    .open()
    .lock(name)
    .acquire({ waitMs: ms(20_000) })
  await until('it waits', 10_000, async () => (await locks.inspect(name)).waiters === 1)
  own.client.close()
  expect(lease.signal.aborted).toBe(true)
  await expect(locks.lock(name).tryAcquire()).rejects.toThrow('is over')
  expect((await waiting).fence).toBeGreaterThan(lease.fence)
  await expect(locks.lock(name).tryAcquire()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
})

test('a client has the listeners it had before, and a dozen sets of locks on it do not look like a leak', async () => {
  await using own = await rawClient(bed.servers)
  const before = listenersOf(own.client)
  const warnings = leakWarnings()
  const all = Array.from({ length: 12 }, () => createLocks(zookeeper({ client: own.client })))
  const name = lockName()
  await Promise.all(all.map((locks) => locks.with(name, { waitMs: ms(20_000) }, () => undefined)))
  expect(warnings).toEqual([])
  for (const locks of all) await locks.close()
  expect(listenersOf(own.client)).toEqual(before)
})
