import { assertInTime } from '@locks/core/conformance'
import { randomUUID } from 'node:crypto'
import { setTimeout as pass } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { redisCommand } from '../../../conformance/services/index.ts'
import type { Server } from '../../../conformance/services/index.ts'
import { connect, over, proxiesOf, servers, takeTurns, uniqueName, until } from './support/bed.ts'

test('twenty clients over jittery links all make progress', async () => {
  const { servers: nodes } = await servers(3)
  const clients = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const proxies = await proxiesOf(nodes)
      const jitter = setInterval(() => proxies.forEach((proxy) => proxy.delay(Math.random() * 8)), 20)
      onTestFinished(() => clearInterval(jitter))
      const locks = connect(over(proxies, { nodeTimeoutMs: 5_000 }), { storeTimeoutMs: 20_000 })
      await locks.with(uniqueName(), () => undefined)
      return locks
    }),
  )
  const start = performance.now()
  const turns = await takeTurns(clients, 2)
  console.log(`20 clients, 40 grants over jittery links: ${(performance.now() - start).toFixed(0)} ms`)
  expect(turns).toEqual({ most: 1, grants: 40 })
})

test('a release wakes a waiter by the hints of the nodes, and until then it hardly asks', async () => {
  const { servers: nodes } = await servers(3)
  const [holder, other] = [
    connect(over(nodes), { ttlMs: 120_000 }),
    connect(over(nodes, { nodeTimeoutMs: 20_000 })),
  ]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire()
  const before = await scriptsRun(nodes)
  const turn = other.lock(lock).acquire({ waitMs: 60_000 })
  await Promise.all(nodes.map((node) => until(async () => (await listenersOf(node, lock)) === 1)))
  await pass(2_000)
  // The first try, and one more for each node as its hints begin to arrive: a script more by each for a new server.
  expect((await scriptsRun(nodes)) - before).toBeLessThanOrEqual(8 * nodes.length)
  const start = performance.now()
  await lease.release()
  await turn
  await assertInTime('granted to the next', 10_000, performance.now() - start)
})

test('RedissonRedLock, another client on each node, is one holder: seen, waited for and broken', async () => {
  const { servers: nodes } = await servers(3)
  const locks = connect(over(nodes, { nodeTimeoutMs: 20_000 }))
  const lock = uniqueName()
  for (const node of nodes) {
    await redisCommand(node, 'HSET', lock, `${randomUUID()}:42`, 1)
    await redisCommand(node, 'PEXPIRE', lock, 120_000)
  }
  expect((await locks.inspect(lock)).holder?.owner).toMatch(/:42$/)
  // The first use of a client looks at each server.
  await locks.with(uniqueName(), () => undefined)
  const before = await scriptsRun(nodes)
  expect(await locks.lock(lock).tryAcquire()).toBeNull()
  // A split vote would be repeated.
  expect((await scriptsRun(nodes)) - before).toBeLessThanOrEqual(4 * nodes.length)
  const turn = locks.lock(lock).acquire({ waitMs: 60_000 })
  await Promise.all(nodes.map((node) => until(async () => (await listenersOf(node, lock)) === 1)))
  expect((await locks.lock(lock).break())?.owner).toMatch(/:42$/)
  await turn
})

async function listenersOf(node: Server, lock: string): Promise<number> {
  const reply = await redisCommand(node, 'PUBSUB', 'NUMSUB', `redisson_lock__channel:{${lock}}`)
  return Number(String(reply).split(',').at(-1))
}

/** How many scripts were called so far, those by hash that were not known included. */
async function scriptsRun(nodes: readonly Server[]): Promise<number> {
  const counts = await Promise.all(
    nodes.map(async (node) => {
      const stats = await redisCommand(node, 'INFO', 'commandstats')
      return [...String(stats).matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)].reduce(
        (sum, [, calls]) => sum + Number(calls),
        0,
      )
    }),
  )
  return counts.reduce((sum, one) => sum + one, 0)
}
