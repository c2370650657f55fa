import { createLocks } from '@locks/core'
import type { Busy, Grant } from '@locks/core/adapter'
import { openTestAdapter } from '@locks/core/conformance'
import { zookeeper } from '@locks/zookeeper'
import { State } from 'node-zookeeper-client'
import { expectRefusedAtOnce } from '../../../conformance/test-support/refusals.ts'
import { expect, onTestFinished, test } from 'vitest'
import { expectNoLeak } from '../../../conformance/test-support/listeners.ts'
import { directory, lockName, testBed } from './support/bed.ts'
import { ms, pass, rawClient, until } from './support/raw-client.ts'

const bed = testBed()

/** The library repeats requests a second after the connection broke; a test that it does not must wait longer. */
const copyMs = ms(2_500)

/** The distinct nodes of a lock over a while. */
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

test('a client that repeats requests creates no second node for an attempt', async () => {
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

test('a node that is granted stays, even if the library sent its creation late', async () => {
  const [proxy, raw] = [await bed.proxy(), await bed.raw()]
  await using own = await rawClient(`${proxy.host}:${proxy.port}`, { retries: 5, sessionTimeout: ms(12_000) })
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

test('the node of a lost lease is removed when its session comes back', async () => {
  const [proxy, raw] = [await bed.proxy(), await bed.raw()]
  await using own = await rawClient(`${proxy.host}:${proxy.port}`, { sessionTimeout: ms(12_000) })
  const { reports, request, take } = bed.adapter({ client: own.client })
  const name = lockName()
  await take(request(name))
  const session = own.client.getSessionId()
  proxy.refuse()
  await until('the session is given up', 15_000, () => reports.includes('lost'))
  expect(await raw.children(directory(name))).toHaveLength(1)
  proxy.pass()
  await until('the node is gone', 20_000, async () => !(await raw.children(directory(name)))?.length)
  await until('a connection', 5_000, () => own.client.getState() === State.SYNC_CONNECTED)
  expect(own.client.getSessionId()).toEqual(session)
})

test('an attempt made while a loss is reported uses the new session, and its grant lasts', async () => {
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
  if (!('fence' in grant)) throw new Error('the lock is busy')
  // Longer than a session without signs of life.
  await pass(10_500)
  const renew = () => adapter.renew([{ grant, ttlMs: grant.ttlMs, lockDelayMs: 0 }])
  expect(await renew()).toEqual(['renewed'])
  const reported = reports.length
  proxy.refuse()
  await until('the outage is noticed', 5_000, () => reports.length > reported)
  // Long enough for several checks of the session, and far from the end of the hold.
  await pass(800)
  proxy.pass()
  await until('a connection', 10_000, () => own.client.getState() === State.SYNC_CONNECTED)
  expect(reports.filter((state) => state === 'lost')).toHaveLength(1)
  expect(await renew()).toEqual(['renewed'])
})

test('a node that could not be removed before close is removed after it', async () => {
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

test('when the user closes the client, its leases are lost at once, and later calls fail', async () => {
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
  await expectRefusedAtOnce(
    zookeeper({ client: own.client }),
    /session of the given .* is over.*; pass a new/,
  )
})

test('close removes our listeners from a given client, and a dozen adapters on it cause no warning', async () => {
  await using own = await rawClient(bed.servers)
  await expectNoLeak([own.client], () => createLocks(zookeeper({ client: own.client })))
})
