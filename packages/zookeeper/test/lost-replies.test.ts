import { createLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import type { FaultProxy } from '@locks/core/conformance'
import { zookeeper } from '@locks/zookeeper'
import { expect, test } from 'vitest'
import { prefixOf } from '../src/paths.ts'
import { directory, lockName, testBed } from './support/bed.ts'
import { ms, pass, rawClient, until } from './support/raw-client.ts'

const bed = testBed()

/** The request that creates a node of a lock. */
const isCreation = (bytes: Buffer): boolean => bytes.includes('-lock-')

test('a node whose creation reply was lost is found by its uuid, and stays the only node', async () => {
  const { locks, proxy } = await bed.wired()
  const raw = await bed.raw()
  const name = lockName()
  const swallowed = proxy.swallowNextReply({ matching: isCreation })
  const lease = await locks.lock(name).acquire()
  await swallowed
  const children = await raw.children(directory(name))
  expect(children).toHaveLength(1)
  const stat = await raw.stat(`${directory(name)}/${children?.[0]}`)
  expect(lease.fence).toBe(stat?.czxid.readBigInt64BE())
  await lease.release()
  expect(await raw.children(directory(name))).toEqual([])
})

test('a repeated attempt recognises the node that it has already created', async () => {
  const [proxy, raw] = [await bed.proxy(), await bed.raw()]
  const { adapter, request } = bed.adapter({}, proxy)
  const name = lockName()
  await adapter.inspect(name)
  const wanted = request(name, { willWait: false })
  const swallowed = proxy.swallowNextReply({ matching: isCreation })
  await expect(adapter.attempt(wanted)).rejects.toThrow('connection')
  await swallowed
  expect(await adapter.attempt(wanted)).toMatchObject({ attemptId: wanted.attemptId })
  expect(await raw.children(directory(name))).toHaveLength(1)
})

test('a node with the uuid of the attempt but of another session is not taken for its own', async () => {
  const proxy = await bed.proxy()
  const raw = await bed.raw()
  const { adapter, request } = bed.adapter({}, proxy)
  const name = lockName()
  await adapter.inspect(name)
  const wanted = request(name)
  await raw.createDirectory('/locks').catch(() => undefined)
  await raw.createDirectory(directory(name))
  const older = await raw.createMember(`${directory(name)}/${prefixOf(wanted.attemptId)}`)
  const swallowed = proxy.swallowNextReply({ matching: isCreation })
  await expect(adapter.attempt(wanted)).rejects.toThrow('connection')
  await swallowed
  const olderFence = (await raw.stat(older))?.czxid.readBigInt64BE()
  const granted = await until('a grant', 20_000, async () => {
    const answer = await adapter.attempt(wanted)
    return 'fence' in answer && answer
  })
  expect(granted.fence).toBeGreaterThan(olderFence ?? 0n)
  const children = await raw.children(directory(name))
  expect(children).toHaveLength(1)
  const stat = await raw.stat(`${directory(name)}/${children?.[0]}`)
  expect(stat?.ephemeralOwner).not.toEqual(raw.client.getSessionId())
})

test('a release that failed for lack of a connection takes effect after the reconnection', async () => {
  const { locks, proxy } = await bed.wired({ sessionTimeoutMs: 60_000 }, { storeTimeoutMs: ms(500) })
  const other = bed.open()
  const name = lockName()
  const lease = await locks.lock(name).acquire()
  const waiting = other.lock(name).acquire({ waitMs: ms(20_000) })
  proxy.refuse()
  await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  proxy.pass()
  const next = await waiting
  expect(next.fence).toBeGreaterThan(lease.fence)
  await next.release()
  const again = await locks.lock(name).acquire({ waitMs: ms(5_000) })
  expect(again.fence).toBeGreaterThan(next.fence)
  await again.release()
})

test('a repeated withdrawal succeeds only when no node is left', async () => {
  const [proxy, raw] = [await bed.proxy(), await bed.raw()]
  const { adapter, request, take } = bed.adapter({ sessionTimeoutMs: 60_000 }, proxy)
  const wanted = request(lockName())
  await take(wanted)
  proxy.refuse()
  await expect(adapter.withdraw(wanted)).rejects.toThrow('connection')
  await expect(adapter.withdraw(wanted)).rejects.toThrow('connection')
  proxy.pass()
  await until('an answer', 20_000, () =>
    adapter.withdraw(wanted).then(
      () => true,
      () => false,
    ),
  )
  expect((await raw.children(directory(wanted.name))) ?? []).toEqual([])
})

test.each([true, false])(
  'a withdrawal that overtakes its attempt, repeated after it, leaves no node behind (willWait: %s)',
  async (willWait) => {
    const [proxy, raw] = [await bed.proxy(), await bed.raw()]
    const { adapter, request } = bed.adapter({ sessionTimeoutMs: 60_000 }, proxy)
    await adapter.inspect(lockName())
    proxy.delay(50)
    // At each step of the attempt: before its first request, between two of them, and after its answer.
    for (const afterMs of [0, 60, 120, 180, 240, 300]) {
      const wanted = request(lockName(), { willWait })
      const attempted = adapter.attempt(wanted).catch(() => undefined)
      await pass(afterMs)
      await adapter.withdraw(wanted)
      await attempted
      await adapter.withdraw(wanted)
      expect((await raw.children(directory(wanted.name))) ?? []).toEqual([])
    }
  },
)

test('an acquire that is given up while its creation is pending leaves no node behind', async () => {
  const { locks, proxy } = await bed.wired({ sessionTimeoutMs: 60_000 }, { storeTimeoutMs: ms(300) })
  const raw = await bed.raw()
  const name = lockName()
  proxy.blackhole('replies')
  await expect(locks.lock(name).acquire()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  await until('the node is there', 5_000, async () => (await raw.children(directory(name)))?.length === 1)
  proxy.pass()
  await until('the node is gone', 10_000, async () => !(await raw.children(directory(name)))?.length)
})

test('a reply that was cut off does not corrupt the next connection, and the session continues', async () => {
  const { locks, proxy } = await bed.wired({ sessionTimeoutMs: 60_000 })
  await cutReplies(locks, proxy)
})

test('a reply that was cut off does not corrupt the next connection of a given client', async () => {
  const proxy = await bed.proxy()
  await using own = await rawClient(`${proxy.host}:${proxy.port}`, { sessionTimeout: 60_000 })
  const locks = createLocks(zookeeper({ client: own.client }))
  await cutReplies(locks, proxy)
  await locks.close()
})

test.each(['drop', 'duplicate', 'insert'] as const)(
  '%s: a reply with the number of another request ends the connection and is not used',
  async (shift) => {
    const { locks, proxy } = await bed.wired({ sessionTimeoutMs: 60_000 })
    const [held, free] = [lockName('held'), lockName('free')]
    const lease = await locks.lock(held).acquire()
    const before = proxy.stats.connections
    const shifted = proxy.shiftNextReply(shift)
    const asked = [held, free, held, free].map(async (name) => ({ name, state: await locks.inspect(name) }))
    for (const outcome of await Promise.allSettled(asked)) {
      if (outcome.status === 'fulfilled') expect(outcome.value.state.held).toBe(outcome.value.name === held)
      else expect(outcome.reason).toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    }
    await shifted
    // An extra reply may arrive while no request is pending; the next request then meets it.
    await until('another connection', 10_000, async () => {
      await locks.inspect(held).catch(() => undefined)
      return proxy.stats.connections > before
    })
    lease.assertHeld()
    await lease.release()
  },
)

async function cutReplies(locks: Locks, proxy: FaultProxy): Promise<void> {
  const name = lockName()
  const lease = await locks.lock(name).acquire()
  for (let round = 0; round < 20; round += 1) {
    proxy.slice()
    const looking = locks.inspect(name).catch(() => undefined)
    const before = proxy.stats.bytesToClient
    await until('a part of a reply', 5_000, () => proxy.stats.bytesToClient > before + (round % 7))
    proxy.reset()
    await looking
  }
  const { holder } = await until('an answer', 5_000, () => locks.inspect(name).catch(() => undefined))
  expect(holder?.fence).toBe(lease.fence)
  lease.assertHeld()
  await lease.release()
}
