import { createLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import { zookeeper } from '@locks/zookeeper'
import type { ZookeeperCapabilities } from '@locks/zookeeper'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { startService } from '../../services/index.ts'
import type { Service } from '../../services/index.ts'
import { eventually, scaled } from '../../services/timing.ts'
import { contend, java, longMs, nodeProcess, tookMs } from '../bed.ts'
import type { Held, Peer } from '../peer.ts'

/** For the process that is about to be killed. */
const shortMs = scaled(2_000)
/** For all others. */
const calmMs = scaled(30_000)

let service: Service
let servers = ''
let names = 0

beforeAll(async () => {
  // The end of a session is rounded up to a tick: a short one leaves more of the bound.
  service = await startService('zookeeper', { settings: { tickTime: 50 } })
  servers = service.url.replace('zookeeper://', '')
})
afterAll(() => service.close())

function node(): Locks<ZookeeperCapabilities> {
  const locks = createLocks(zookeeper({ servers, rawPath: true, sessionTimeoutMs: calmMs }))
  onTestFinished(() => locks.close())
  return locks
}

const curator = (sessionTimeoutMs = calmMs): Promise<Peer> => java('CuratorPeer', [servers, sessionTimeoutMs])
const path = (): string => `/interop-${process.pid}/lock-${++names}`

async function waiting(locks: Locks<ZookeeperCapabilities>, lock: string, count: number): Promise<void> {
  await eventually('it waits', async () => (await locks.inspect(lock)).waiters === count)
}

test("Curator's mutex and Node keep each other out", async () => {
  const [locks, peer, lock] = [node(), await curator(), path()]
  const lease = await locks.lock(lock).acquire()
  expect(await peer.acquire(lock, 200)).toBeUndefined()
  await lease.release()
  const held = await peer.acquire(lock, longMs)
  expect(held).toBeDefined()
  expect(await locks.lock(lock).tryAcquire()).toBeNull()
  expect((await locks.inspect(lock)).held).toBe(true)
  await peer.release(held)
  const next = await locks.lock(lock).acquire()
  expect(next.fence).toBeGreaterThan(lease.fence)
  await next.release()
})

test('Java and Node wait in one queue, first come first served', async () => {
  const [holder, peer, lock] = [node(), await curator(), path()]
  const lease = await holder.lock(lock).acquire()
  const order: string[] = []
  const turns: Promise<unknown>[] = []
  for (let n = 0; n < 8; n += 1) {
    const enter = (): void => void order.push(`${n % 2 === 0 ? 'java' : 'node'} ${n}`)
    turns.push(n % 2 === 0 ? javaTurn(peer, lock, enter) : node().with(lock, { waitMs: longMs }, enter))
    await waiting(holder, lock, n + 1)
  }
  await lease.release()
  await Promise.all(turns)
  expect(order).toEqual(Array.from({ length: 8 }, (_, n) => `${n % 2 === 0 ? 'java' : 'node'} ${n}`))
})

async function javaTurn(peer: Peer, lock: string, enter: () => void): Promise<void> {
  const held = await peer.acquire(lock, longMs)
  enter()
  await peer.release(held)
}

test('under contention never both at once', async () => {
  const [clients, peers, lock] = [[node(), node()], [await curator(), await curator()], path()]
  const take = (peer: Peer): Promise<Held | undefined> => peer.acquire(lock, longMs)
  const theirs = peers.map((peer) => ({ peer, take: () => take(peer) }))
  expect(await contend(clients, theirs, lock, 40)).toBe(160)
})

test('SIGKILL of Java frees the lock for Node within the session timeout', async () => {
  const [locks, peer, lock] = [node(), await curator(shortMs), path()]
  await peer.acquire(lock, longMs)
  const granted = locks.lock(lock).acquire({ waitMs: longMs })
  await waiting(locks, lock, 1)
  expect(await tookMs(() => peer.kill(), granted)).toBeLessThan(shortMs + scaled(500))
})

test('SIGKILL of Node frees the lock for Java within the session timeout', async () => {
  const [watcher, peer, lock] = [node(), await curator(), path()]
  const config = { adapter: '@locks/zookeeper', servers, rawPath: true, sessionTimeoutMs: shortMs } as const
  const child = await nodeProcess(config, longMs)
  await child.call('acquire', { lock })
  const granted = peer.acquire(lock, longMs)
  await waiting(watcher, lock, 1)
  expect(await tookMs(() => child.kill(), granted)).toBeLessThan(shortMs + scaled(500))
})
