import { assertInTime } from '@locks/core/conformance'
import { setTimeout as pass } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { redisCommand } from '../../../conformance/services/index.ts'
import {
  bare,
  connect,
  heldOn,
  over,
  servers,
  somebody,
  takeTurns,
  uniqueName,
  until,
} from './support/bed.ts'

test('two of five nodes down are no matter', async () => {
  const { servers: nodes } = await servers(5)
  const [locks, others] = [connect(over(nodes)), connect(over(nodes))]
  await Promise.all(nodes.slice(0, 2).map((node) => node.stop()))
  const lock = uniqueName()
  const lease = await locks.lock(lock).acquire()
  expect(await others.lock(lock).tryAcquire()).toBeNull()
  await lease.extend()
  await lease.release()
  const next = await others.lock(lock).acquire()
  expect(next.fence).toBeGreaterThan(lease.fence)
})

test('one hung node of three costs nothing: no acquire waits for it', async () => {
  const { servers: nodes } = await servers(3)
  const nodeTimeoutMs = 60_000
  const locks = connect(over(nodes, { nodeTimeoutMs }))
  const cycles = async (): Promise<number> => {
    const start = performance.now()
    for (let n = 0; n < 50; n += 1) await locks.with(uniqueName(), () => undefined)
    return performance.now() - start
  }
  await cycles()
  await nodes[2]?.pause()
  onTestFinished(async () => nodes[2]?.resume())
  const hungMs = await cycles()
  console.log(`50 cycles with one of three nodes hung: ${hungMs.toFixed(0)} ms`)
  // Less for all of them than the time-out of one.
  await assertInTime('a cycle with a node that hangs', nodeTimeoutMs, hungMs)
  const lock = uniqueName()
  const lease = await locks.lock(lock).acquire({ ttlMs: 30_000 })
  await lease.release()
  await nodes[2]?.resume()
  // What it was asked while it hung, it does now, in order.
  await until(async () => (await heldOn(nodes, lock)) === 0)
})

test('one hung node of three costs a split vote nothing either', async () => {
  const { servers: nodes } = await servers(3)
  const [, second, third] = nodes
  const nodeTimeoutMs = 20_000
  const { adapter, request, take } = bare(over(nodes, { nodeTimeoutMs }))
  await adapter.release(await take(request(uniqueName())))
  const lock = uniqueName()
  if (second !== undefined) {
    await redisCommand(second, 'HSET', lock, somebody(1), 1)
    await redisCommand(second, 'PEXPIRE', lock, 600_000)
  }
  await third?.pause()
  onTestFinished(async () => third?.resume())
  const start = performance.now()
  expect(await adapter.attempt(request(lock))).toMatchObject({ busy: true })
  await assertInTime('the end', nodeTimeoutMs / 2, performance.now() - start)
})

test('contenders get on with the first node hung, which all of them would ask first', async () => {
  const { servers: nodes } = await servers(3)
  const clients = Array.from({ length: 4 }, () => connect(over(nodes)))
  for (const locks of clients) await locks.with(uniqueName(), () => undefined)
  await nodes[0]?.pause()
  onTestFinished(async () => nodes[0]?.resume())
  expect(await takeTurns(clients, 5)).toEqual({ most: 1, grants: 20 })
})

test('a hold that lost its majority does not keep its minority', async () => {
  const { servers: nodes } = await servers(3)
  const { adapter, request, take } = bare(over(nodes, { nodeTimeoutMs: 20_000 }))
  const lock = uniqueName()
  const grant = await take(request(lock))
  await until(async () => (await heldOn(nodes, lock)) === 3)
  for (const node of nodes.slice(1)) await redisCommand(node, 'DEL', lock)
  expect(await adapter.renew([{ grant, ttlMs: 20_000, lockDelayMs: 0 }])).toEqual(['lost'])
  await until(async () => (await heldOn(nodes, lock)) === 0)
})

test('a lock whose majority is not in reach is not called free', async () => {
  const { servers: nodes } = await servers(3)
  const [, second, third] = nodes
  const { adapter, request, take } = bare(over(nodes))
  const lock = uniqueName()
  const { fence } = await take(request(lock))
  await until(async () => (await heldOn(nodes, lock)) === 3)
  if (third !== undefined) await redisCommand(third, 'DEL', lock)
  await second?.stop()
  expect(await adapter.inspect(lock)).toMatchObject({ held: true, holder: { fence } })
  expect(await bare(over(nodes)).adapter.attempt(request(lock))).toMatchObject({ busy: true })
})

test('a majority of servers whose settings are refused is not an outage', async () => {
  const { servers: nodes } = await servers(3, { 'maxmemory-policy': 'allkeys-lru' })
  const strict = nodes.map(({ host, port }) => ({
    connection: { host, port },
    serverSettings: 'refuse' as const,
  }))
  const locks = connect({ nodes: strict })
  await expect(locks.lock(uniqueName()).acquire()).rejects.toMatchObject({ code: 'LOCK_UNSUPPORTED' })
})

test('fences rise on real servers while nodes come and go', async () => {
  const { servers: nodes } = await servers(5)
  const clients = Array.from({ length: 3 }, () =>
    connect(over(nodes, { nodeTimeoutMs: 500 }), { storeTimeoutMs: 30_000 }),
  )
  const lock = uniqueName()
  const fences: bigint[] = []
  let done = false
  const chaos = (async () => {
    for (let n = 0; !done; n = (n + 1) % 5) {
      const [one, two] = [nodes[n], nodes[(n + 2) % 5]]
      await one?.stop()
      await two?.pause()
      await pass(150)
      await two?.resume()
      await one?.start()
      await pass(100)
    }
  })()
  await Promise.all(
    clients.map(async (locks) => {
      for (let n = 0; n < 40; n += 1)
        await locks.with(lock, { waitMs: 60_000, ttlMs: 60_000 }, ({ fence }) => void fences.push(fence))
    }),
  )
  done = true
  await chaos
  expect(fences).toHaveLength(120)
  fences.forEach((fence, n) => expect(fence).toBeGreaterThan(fences[n - 1] ?? 0n))
})
