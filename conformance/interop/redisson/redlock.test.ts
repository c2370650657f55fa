import { createLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import { redlock } from '@locks/redlock'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { redisCommand, startService } from '../../services/index.ts'
import type { Service } from '../../services/index.ts'
import { eventually, scaled } from '../../services/timing.ts'
import { contend, graceMs, java, longMs, nodeProcess, promptMs, tookMs, uniqueName } from '../bed.ts'
import type { Held, Peer } from '../peer.ts'

const leaseMs = scaled(3_000)

let service: Service
let urls: readonly string[] = []

beforeAll(async () => {
  service = await startService('redis-independent', { count: 3, needsControl: true })
  urls = service.servers.map(({ host, port }) => `redis://${host}:${port}`)
})
afterAll(() => service.close())

function node(): Locks {
  const locks = createLocks(redlock({ nodes: urls, prefix: '', nodeTimeoutMs: scaled(5_000) }), {
    ttlMs: longMs,
  })
  onTestFinished(() => locks.close())
  return locks
}

const redisson = (watchdogMs: number = longMs): Promise<Peer> => java('RedissonPeer', [watchdogMs, ...urls])
const take = (peer: Peer, lock: string, waitMs: number = longMs): Promise<Held | undefined> =>
  peer.acquire('redlock', lock, waitMs, -1)

/** Until a waiter listens for a release on each of `count` servers. */
async function heard(lock: string, count: number): Promise<void> {
  await eventually('a waiter listens', async () => {
    const replies = await Promise.all(
      service.servers.map((server) =>
        redisCommand(server, 'PUBSUB', 'NUMSUB', `redisson_lock__channel:{${lock}}`),
      ),
    )
    return replies.filter((reply) => String(reply).endsWith(',1')).length >= count
  })
}

test('RedissonRedLock and @locks/redlock keep each other out', async () => {
  const [locks, peer, lock] = [node(), await redisson(), uniqueName()]
  const lease = await locks.lock(lock).acquire()
  expect(await take(peer, lock, 600)).toBeUndefined()
  await lease.release()
  const held = await take(peer, lock)
  expect(await locks.lock(lock).tryAcquire()).toBeNull()
  expect((await locks.inspect(lock)).held).toBe(true)
  await peer.release(held)
  const next = await locks.lock(lock).acquire({ waitMs: longMs })
  expect(next.fence).toBeGreaterThan(lease.fence)
})

test('a release by Node wakes RedissonRedLock', async () => {
  const [locks, peer, lock] = [node(), await redisson(), uniqueName()]
  const lease = await locks.lock(lock).acquire()
  const granted = take(peer, lock)
  // It waits for one server after the other.
  await heard(lock, 1)
  expect(await tookMs(() => lease.release(), granted)).toBeLessThan(promptMs)
})

test('a release by RedissonRedLock wakes Node', async () => {
  const [locks, peer, lock] = [node(), await redisson(), uniqueName()]
  const held = await take(peer, lock)
  const granted = locks.lock(lock).acquire({ waitMs: longMs })
  await heard(lock, 3)
  expect(await tookMs(() => peer.release(held), granted)).toBeLessThan(promptMs)
})

test('SIGKILL of either side frees the lock for the other within its lease', async () => {
  const [locks, first, second, lock] = [node(), await redisson(leaseMs), await redisson(), uniqueName()]
  await take(first, lock)
  const granted = locks.lock(lock).acquire({ waitMs: longMs })
  await heard(lock, 3)
  expect(await tookMs(() => first.kill(), granted)).toBeLessThan(leaseMs + graceMs)
  await (await granted).release()
  const child = await nodeProcess({ adapter: '@locks/redlock', nodes: urls, prefix: '' }, leaseMs)
  await child.call('acquire', { lock })
  const next = take(second, lock)
  await heard(lock, 1)
  expect(await tookMs(() => child.kill(), next)).toBeLessThan(leaseMs + graceMs)
})

test('under contention never both at once', async () => {
  const [clients, peers, lock] = [[node(), node()], [await redisson(), await redisson()], uniqueName()]
  const theirs = peers.map((peer) => ({ peer, take: () => take(peer, lock) }))
  expect(await contend(clients, theirs, lock, 5)).toBe(20)
})
