import { createLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import { redis } from '@locks/redis'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { redisCommand, startService } from '../../services/index.ts'
import type { Server, Service } from '../../services/index.ts'
import { eventually, scaled } from '../../services/timing.ts'
import { contend, graceMs, java, longMs, nodeProcess, promptMs, tookMs, uniqueName } from '../bed.ts'
import type { Peer } from '../peer.ts'

/** Of those whose end is waited for. */
const leaseMs = scaled(3_000)

let service: Service
let server: Server
let url = ''

beforeAll(async () => {
  service = await startService('redis', { needsControl: true })
  server = service.server('redis')
  url = `redis://${server.host}:${server.port}`
})
afterAll(() => service.close())

function node(ttlMs: number = longMs): Locks {
  const locks = createLocks(redis({ url, prefix: '' }), { ttlMs })
  onTestFinished(() => locks.close())
  return locks
}

/** Redisson's default watchdog. */
const redisson = (watchdogMs: number = longMs): Promise<Peer> => java('RedissonPeer', [watchdogMs, url])

/** Until so many listen for a release, in Redisson's way. */
async function heardBy(lock: string, count: number): Promise<void> {
  await eventually('a waiter listens', async () => {
    const reply = await redisCommand(server, 'PUBSUB', 'NUMSUB', `redisson_lock__channel:{${lock}}`)
    return String(reply).endsWith(`,${count}`)
  })
}

test('Node keeps Java out, and Java keeps Node out', async () => {
  const [locks, peer, lock] = [node(), await redisson(), uniqueName()]
  const lease = await locks.lock(lock).acquire()
  expect(await peer.acquire('lock', lock, 200, -1)).toBeUndefined()
  expect(await peer.acquire('fenced', lock, 200, -1)).toBeUndefined()
  await lease.release()
  for (const kind of ['lock', 'fenced']) {
    const held = await peer.acquire(kind, lock, longMs, -1)
    expect(held).toBeDefined()
    expect(await locks.lock(lock).tryAcquire()).toBeNull()
    const { holder } = await locks.inspect(lock)
    expect(holder?.owner).toMatch(/^[0-9a-f-]{36}:\d+$/)
    await peer.release(held)
  }
  await (await locks.lock(lock).acquire()).release()
})

test('a release by Node wakes Java, long before the lease would end', async () => {
  const [locks, peer, lock] = [node(), await redisson(), uniqueName()]
  const lease = await locks.lock(lock).acquire()
  const granted = peer.acquire('lock', lock, longMs, -1)
  await heardBy(lock, 1)
  expect(await tookMs(() => lease.release(), granted)).toBeLessThan(promptMs)
})

test('a release by Java wakes Node, long before the lease would end', async () => {
  const [locks, peer, lock] = [node(), await redisson(), uniqueName()]
  const held = await peer.acquire('lock', lock, longMs, longMs)
  const granted = locks.lock(lock).acquire({ waitMs: longMs })
  await heardBy(lock, 1)
  expect(await tookMs(() => peer.release(held), granted)).toBeLessThan(promptMs)
})

test('both watchdogs keep their locks for as long as they are held', async () => {
  const [locks, peer] = [node(leaseMs), await redisson(leaseMs)]
  const [mine, theirs] = [uniqueName(), uniqueName()]
  const lease = await locks.lock(mine).acquire()
  const held = await peer.acquire('lock', theirs, longMs, -1)
  const [tooEarly, alsoTooEarly] = await Promise.all([
    peer.acquire('lock', mine, leaseMs * 3, -1),
    node()
      .lock(theirs)
      .acquire({ waitMs: leaseMs * 3 })
      .catch((error: unknown) => error),
  ])
  expect(tooEarly).toBeUndefined()
  expect(alsoTooEarly).toMatchObject({ code: 'LOCK_TIMEOUT' })
  lease.assertHeld()
  await lease.release()
  await peer.release(held)
})

test('fences of Node and of RFencedLock increase across both', async () => {
  const [locks, peer, lock] = [node(), await redisson(), uniqueName()]
  const fences: bigint[] = []
  for (let n = 0; n < 5; n += 1) {
    const held = await peer.acquire('fenced', lock, longMs, -1)
    fences.push(held?.fence ?? 0n)
    await peer.release(held)
    await locks.with(lock, { waitMs: longMs }, ({ fence }) => void fences.push(fence))
  }
  fences.forEach((fence, n) => expect(fence).toBeGreaterThan(fences[n - 1] ?? 0n))
})

test('SIGKILL of Java frees its lock for Node within its lease', async () => {
  const [locks, peer, lock] = [node(), await redisson(leaseMs), uniqueName()]
  await peer.acquire('lock', lock, longMs, -1)
  const granted = locks.lock(lock).acquire({ waitMs: longMs })
  await heardBy(lock, 1)
  expect(await tookMs(() => peer.kill(), granted)).toBeLessThan(leaseMs + graceMs)
})

test('SIGKILL of Node frees its lock for Java within its lease', async () => {
  const [child, peer, lock] = [
    await nodeProcess({ adapter: '@locks/redis', url, prefix: '' }, leaseMs),
    await redisson(),
    uniqueName(),
  ]
  await child.call('acquire', { lock })
  const granted = peer.acquire('lock', lock, longMs, -1)
  await heardBy(lock, 1)
  expect(await tookMs(() => child.kill(), granted)).toBeLessThan(leaseMs + graceMs)
})

test('under contention never both at once, and nobody starves', async () => {
  const [clients, peers, lock] = [[node(), node()], [await redisson(), await redisson()], uniqueName()]
  const theirs = peers.map((peer) => ({ peer, take: () => peer.acquire('lock', lock, longMs, -1) }))
  expect(await contend(clients, theirs, lock, 25)).toBe(100)
})
