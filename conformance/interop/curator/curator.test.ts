import { createLocks } from '@locks/core'
import type { Lease, Locks } from '@locks/core'
import { startChild } from '@locks/core/conformance'
import { zookeeper } from '@locks/zookeeper'
import type { ZookeeperCapabilities } from '@locks/zookeeper'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { isSelected } from '../../selection.ts'
import { startService } from '../../services/index.ts'
import type { Service } from '../../services/index.ts'
import { eventually, scaled } from '../../services/timing.ts'
import { buildPeer, startPeer, whyNoPeer } from './peer.ts'
import type { Peer } from './peer.ts'

const reason = isSelected('zookeeper') ? whyNoPeer() : 'LOCKS_ONLY does not name zookeeper'
const longMs = scaled(30_000)
/** Of whoever is about to be killed. */
const shortMs = scaled(2_000)

describe.skipIf(reason !== undefined)(`Curator's InterProcessMutex${reason ? ` (${reason})` : ''}`, () => {
  let service: Service | undefined
  let servers = ''
  let classPath = ''
  let names = 0
  const cleanups: (() => Promise<unknown>)[] = []

  beforeAll(async () => {
    classPath = await buildPeer()
    // The end of a session is rounded up to a tick: a short one leaves more of the promised half second.
    service = await startService('zookeeper', { settings: { tickTime: 50 } })
    servers = service.url.replace('zookeeper://', '')
  }, scaled(300_000))
  afterAll(() => service?.close())
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
  })

  function node(): Locks<ZookeeperCapabilities> {
    const locks = createLocks(zookeeper({ servers, rawPath: true, sessionTimeoutMs: longMs }))
    cleanups.push(() => locks.close())
    return locks
  }

  async function java(sessionTimeoutMs = longMs): Promise<Peer> {
    const peer = await startPeer(classPath, servers, sessionTimeoutMs)
    cleanups.push(() => peer.kill())
    return peer
  }

  const path = (): string => `/interop-${process.pid}/lock-${++names}`

  test('each keeps the other out', { timeout: scaled(60_000) }, async () => {
    const [locks, peer, lock] = [node(), await java(), path()]
    const lease = await locks.lock(lock).acquire()
    expect(await peer.acquire(lock, 200)).toBeUndefined()
    await lease.release()
    const held = await peer.acquire(lock, longMs)
    expect(held).toBeDefined()
    expect(await locks.lock(lock).tryAcquire()).toBeNull()
    expect((await locks.inspect(lock)).held).toBe(true)
    await peer.release(held ?? 0)
    const next = await locks.lock(lock).acquire()
    expect(next.fence).toBeGreaterThan(lease.fence)
    await next.release()
  })

  test('Java and Node wait in one queue, first come first served', { timeout: scaled(60_000) }, async () => {
    const [holder, peer, lock] = [node(), await java(), path()]
    const lease = await holder.lock(lock).acquire()
    const order: string[] = []
    const turns = []
    for (let n = 0; n < 8; n += 1) {
      const isJava = n % 2 === 0
      turns.push(isJava ? javaTurn(peer, lock, order, n) : nodeTurn(node(), lock, order, n))
      await eventually('it waits', async () => (await holder.inspect(lock)).waiters === n + 1)
    }
    await lease.release()
    await Promise.all(turns)
    expect(order).toEqual(Array.from({ length: 8 }, (_, n) => `${n % 2 === 0 ? 'java' : 'node'} ${n}`))
  })

  async function javaTurn(peer: Peer, lock: string, order: string[], n: number): Promise<void> {
    const held = await peer.acquire(lock, longMs)
    order.push(`java ${n}`)
    await peer.release(held ?? 0)
  }

  async function nodeTurn(
    locks: Locks<ZookeeperCapabilities>,
    lock: string,
    order: string[],
    n: number,
  ): Promise<void> {
    await locks.with(lock, { waitMs: longMs }, () => void order.push(`node ${n}`))
  }

  test('under contention never both at once', { timeout: scaled(120_000) }, async () => {
    const [peers, clients, lock] = [[await java(), await java()], [node(), node()], path()]
    let inside = 0
    let grants = 0
    const enter = async (): Promise<void> => {
      inside += 1
      grants += 1
      expect(inside).toBe(1)
      await new Promise((resolve) => setImmediate(resolve))
      inside -= 1
    }
    const cycles = 40
    await Promise.all([
      ...clients.map(async (locks) => {
        for (let n = 0; n < cycles; n += 1) await locks.with(lock, { waitMs: longMs }, enter)
      }),
      ...peers.map(async (peer) => {
        for (let n = 0; n < cycles; n += 1) {
          const held = await peer.acquire(lock, longMs)
          await enter()
          await peer.release(held ?? 0)
        }
      }),
    ])
    expect(grants).toBe(4 * cycles)
  })

  test(
    'SIGKILL of Java frees the lock for Node within the session timeout',
    { timeout: scaled(60_000) },
    async () => {
      const [locks, peer, lock] = [node(), await java(shortMs), path()]
      await peer.acquire(lock, longMs)
      const waiting: Promise<Lease> = locks.lock(lock).acquire({ waitMs: longMs })
      await eventually('it waits', async () => (await locks.inspect(lock)).waiters === 1)
      const killedAt = performance.now()
      await peer.kill()
      await waiting
      expect(performance.now() - killedAt).toBeLessThan(shortMs + scaled(500))
    },
  )

  test(
    'SIGKILL of Node frees the lock for Java within the session timeout',
    { timeout: scaled(60_000) },
    async () => {
      const [peer, lock] = [await java(), path()]
      const child = await startChild()
      cleanups.push(() => child.kill())
      const config = { adapter: '@locks/zookeeper', servers, rawPath: true, sessionTimeoutMs: shortMs }
      await child.call('open', { config, options: {} })
      await child.call('acquire', { lock })
      const waiting = peer.acquire(lock, longMs)
      const watcher = node()
      await eventually('it waits', async () => (await watcher.inspect(lock)).waiters === 1)
      const killedAt = performance.now()
      await child.kill()
      expect(await waiting).toBeDefined()
      expect(performance.now() - killedAt).toBeLessThan(shortMs + scaled(500))
    },
  )
})
