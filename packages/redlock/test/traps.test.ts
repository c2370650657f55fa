import { createLocks } from '@locks/core'
import { redlock } from '@locks/redlock'
import { setTimeout as pass } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { redisCommand } from '../../../conformance/services/index.ts'
import { bare, connect, heldOn, over, proxiesOf, servers, uniqueName, until } from './support/bed.ts'

for (const count of [2, 4])
  test(`trap 1: with ${count} nodes a tie settles: contenders get the lock one after the other`, async () => {
    const { servers: nodes } = await servers(count)
    const clients = Array.from({ length: 4 }, () => connect(over(nodes)))
    const lock = uniqueName()
    let [inside, most, grants] = [0, 0, 0]
    await Promise.all(
      clients.map(async (locks) => {
        for (let n = 0; n < 5; n += 1)
          await locks.with(lock, { waitMs: 25_000 }, async () => {
            most = Math.max(most, ++inside)
            grants += 1
            await pass(2)
            inside -= 1
          })
      }),
    )
    expect({ most, grants }).toEqual({ most: 1, grants: 20 })
  })

test('trap 1: half of an even number is no majority', async () => {
  const { servers: nodes } = await servers(4)
  const { adapter, request } = bare(over(nodes))
  const lock = uniqueName()
  for (const node of nodes.slice(0, 2)) await redisCommand(node, 'HSET', lock, 'somebody:1', 1)
  expect(await adapter.attempt(request(lock))).toMatchObject({ busy: true })
  expect(await heldOn(nodes.slice(2), lock)).toBe(0)
})

test('trap 2: a majority that came together after the ttl is no grant, and nothing of it is left', async () => {
  const { servers: nodes } = await servers(3)
  const proxies = await proxiesOf(nodes)
  const { adapter, request, take } = bare(over(proxies, { nodeTimeoutMs: 2_000 }))
  const warm = await take(request(uniqueName()))
  await adapter.release(warm)
  for (const proxy of proxies) proxy.delay(100)
  const lock = uniqueName()
  await expect(adapter.attempt(request(lock, { ttlMs: 150 }))).rejects.toMatchObject({
    code: 'LOCK_UNAVAILABLE',
  })
  expect(await heldOn(nodes, lock)).toBe(0)
})

test('trap 3: a vote split three ways that nobody gives back settles when it expires', async () => {
  const { servers: nodes } = await servers(3)
  const locks = connect(over(nodes))
  const lock = uniqueName()
  for (const [n, node] of nodes.entries()) {
    await redisCommand(node, 'HSET', lock, `somebody:${n}`, 1)
    await redisCommand(node, 'PEXPIRE', lock, 1_000)
  }
  const start = performance.now()
  const lease = await locks.lock(lock).acquire({ waitMs: 20_000 })
  expect(performance.now() - start).toBeGreaterThan(500)
  expect(performance.now() - start).toBeLessThan(5_000)
  await lease.release()
})

test('trap 4: a node that keeps what it acknowledged (appendfsync always) may be killed and come back', async () => {
  const { servers: nodes } = await servers(3, { appendonly: 'yes', appendfsync: 'always' })
  const [first, second, third] = nodes
  await third?.stop()
  const [holder, other] = [bare(over(nodes)), bare(over(nodes))]
  const lock = uniqueName()
  const grant = await holder.take(holder.request(lock))
  await third?.start()
  await second?.restart({ hard: true })
  await until(async () => 'busy' in (await other.adapter.attempt(other.request(lock)).catch(() => ({}))))
  const renewal = { grant, ttlMs: 20_000, lockDelayMs: 0 }
  await until(async () => (await holder.adapter.renew([renewal]))[0] === 'renewed')
  expect(await redisCommand(first ?? { host: '', port: 0 }, 'EXISTS', lock)).toBe(1)
})

test('trap 4: a majority that comes back empty lets in a second holder, whose fence exposes the first', async () => {
  const { servers: nodes } = await servers(3)
  const [, second, third] = nodes
  const [holder, other] = [bare(over(nodes)), bare(over(nodes))]
  const lock = uniqueName()
  const start = performance.now()
  const stale = await holder.take(holder.request(lock))
  for (const node of [second, third]) await node?.restart({ hard: true, wipe: true })
  const next = await until(async () => {
    const answer = await other.adapter.attempt(other.request(lock)).catch(() => undefined)
    return answer !== undefined && 'fence' in answer && answer
  })
  expect(performance.now() - start).toBeLessThan(stale.ttlMs)
  expect(next.fence).toBeGreaterThan(stale.fence)
  const renewal = { grant: stale, ttlMs: 20_000, lockDelayMs: 0 }
  await until(async () => (await holder.adapter.renew([renewal]))[0] === 'lost')
})

test('trap 4: a node that stays away for longer than any ttl may come back empty', async () => {
  const { servers: nodes } = await servers(3)
  const [, second, third] = nodes
  const locks = createLocks(redlock(over(nodes)))
  onTestFinished(() => locks.close())
  await third?.stop()
  const lock = uniqueName()
  const lease = await locks.lock(lock).acquire({ ttlMs: 1_000, renew: false })
  await third?.start()
  await second?.kill()
  await pass(1_100)
  await second?.restart({ wipe: true })
  expect(lease.state).toBe('lost')
  const next = await connect(over(nodes)).lock(lock).acquire()
  expect(next.fence).toBeGreaterThan(lease.fence)
})

test('trap 5: with three of five nodes down it fails fast, says why for each, and leaves nothing behind', async () => {
  const { servers: nodes } = await servers(5)
  const up = nodes.slice(0, 2)
  const { adapter, request, take } = bare(over(nodes))
  await adapter.release(await take(request(uniqueName())))
  await Promise.all(nodes.slice(2).map((node) => node.stop()))
  const lock = uniqueName()
  const start = performance.now()
  const failure: unknown = await adapter.attempt(request(lock)).catch((error: unknown) => error)
  const tookMs = performance.now() - start
  console.log(`three of five down: failed after ${tookMs.toFixed(0)} ms`)
  expect(tookMs).toBeLessThan(2_000)
  expect(failure).toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  const cause = failure instanceof Error ? failure.cause : undefined
  const told = cause instanceof AggregateError ? cause.errors.map(String) : []
  expect(told.map((text) => /node (\d): (ok)?/.exec(text)?.slice(1))).toEqual([
    ['1', 'ok'],
    ['2', 'ok'],
    ['3', undefined],
    ['4', undefined],
    ['5', undefined],
  ])
  expect(await heldOn(up, lock)).toBe(0)
})

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

test('trap 6: a quorum below the majority is refused', () => {
  const nodes = ['redis://a', 'redis://b', 'redis://c']
  expect(() => redlock({ nodes, quorum: 1 })).toThrow(/quorum must be a whole number from 2 to 3/)
  expect(() => redlock({ nodes: nodes.slice(0, 2), quorum: 1 })).toThrow(/from 2 to 2/)
  redlock({ nodes, quorum: 3 })
})

test('one hung node of three costs nothing: no acquire waits for it', async () => {
  const { servers: nodes } = await servers(3)
  const nodeTimeoutMs = 10_000
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
  expect(hungMs).toBeLessThan(nodeTimeoutMs)
  const lock = uniqueName()
  const lease = await locks.lock(lock).acquire({ ttlMs: 30_000 })
  await lease.release()
  await nodes[2]?.resume()
  // What it was asked while it hung, it does now, in order.
  await until(async () => (await heldOn(nodes, lock)) === 0)
})

test('twenty clients over jittery links all make progress', { timeout: 120_000 }, async () => {
  const { servers: nodes } = await servers(3)
  const lock = uniqueName()
  let [inside, most, grants] = [0, 0, 0]
  const clients = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const proxies = await proxiesOf(nodes)
      for (const proxy of proxies) proxy.delay(Math.random() * 8)
      const locks = connect(over(proxies, { nodeTimeoutMs: 5_000 }), { storeTimeoutMs: 20_000 })
      await locks.with(uniqueName(), () => undefined)
      return locks
    }),
  )
  const start = performance.now()
  await Promise.all(
    clients.map(async (locks) => {
      for (let n = 0; n < 2; n += 1)
        await locks.with(lock, { waitMs: 100_000 }, async () => {
          most = Math.max(most, ++inside)
          grants += 1
          await pass(1)
          inside -= 1
        })
    }),
  )
  console.log(`20 clients, 40 grants over jittery links: ${(performance.now() - start).toFixed(0)} ms`)
  expect({ most, grants }).toEqual({ most: 1, grants: 40 })
})

test('a release wakes a waiter by the notices of the nodes', async () => {
  const { servers: nodes } = await servers(3)
  const [holder, other] = [connect(over(nodes), { ttlMs: 30_000 }), connect(over(nodes))]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire()
  const turn = other.lock(lock).acquire({ waitMs: 20_000 })
  const channel = `redisson_lock__channel:{${lock}}`
  const [first] = nodes
  await until(async () => {
    return first && String(await redisCommand(first, 'PUBSUB', 'NUMSUB', channel)).endsWith(',1')
  })
  const start = performance.now()
  await lease.release()
  await turn
  expect(performance.now() - start).toBeLessThan(1_000)
})

test('fences rise on real servers while nodes come and go', { timeout: 120_000 }, async () => {
  const { servers: nodes } = await servers(5)
  const clients = Array.from({ length: 3 }, () => connect(over(nodes, { nodeTimeoutMs: 200 })))
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
        await locks.with(lock, { waitMs: 60_000, ttlMs: 5_000 }, ({ fence }) => void fences.push(fence))
    }),
  )
  done = true
  await chaos
  expect(fences).toHaveLength(120)
  fences.forEach((fence, n) => expect(fence).toBeGreaterThan(fences[n - 1] ?? 0n))
})
