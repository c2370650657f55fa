import { createLocks } from '@locks/core'
import { assertInTime } from '@locks/core/conformance'
import { redlock } from '@locks/redlock'
import { setTimeout as pass } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { redisCommand } from '../../../conformance/services/index.ts'
import {
  bare,
  connect,
  heldOn,
  over,
  proxiesOf,
  servers,
  somebody,
  takeTurns,
  uniqueName,
  until,
} from './support/bed.ts'

for (const count of [2, 4])
  test(`with ${count} nodes a tie settles: contenders get the lock one after the other`, async () => {
    const { servers: nodes } = await servers(count)
    const clients = Array.from({ length: 4 }, () => connect(over(nodes)))
    expect(await takeTurns(clients, 5)).toEqual({ most: 1, grants: 20 })
  })

test('half of an even number is not a majority', async () => {
  const { servers: nodes } = await servers(4)
  const { adapter, request } = bare(over(nodes))
  const lock = uniqueName()
  for (const node of nodes.slice(0, 2)) {
    await redisCommand(node, 'HSET', lock, somebody(1), 1)
    await redisCommand(node, 'PEXPIRE', lock, 600_000)
  }
  expect(await adapter.attempt(request(lock))).toMatchObject({ busy: true })
  await until(async () => (await heldOn(nodes.slice(2), lock)) === 0)
})

test('a majority that is reached after the ttl is not a grant, and nothing of it is left', async () => {
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
  // The late vote is released behind it.
  await until(async () => (await heldOn(nodes, lock)) === 0)
})

test('a vote split three ways and never released settles when it expires', async () => {
  const { servers: nodes } = await servers(3)
  const locks = connect(over(nodes))
  const lock = uniqueName()
  const start = performance.now()
  for (const [n, node] of nodes.entries()) {
    await redisCommand(node, 'HSET', lock, somebody(n), 1)
    await redisCommand(node, 'PEXPIRE', lock, 1_000)
  }
  const lease = await locks.lock(lock).acquire({ waitMs: 20_000 })
  expect(performance.now() - start).toBeGreaterThan(900)
  await assertInTime('the grant', 10_000, performance.now() - start)
  await lease.release()
})

test('a node that keeps what it acknowledged (appendfsync always) may be killed and come back', async () => {
  const { servers: nodes } = await servers(3, { appendonly: 'yes', appendfsync: 'always' })
  const [, second, third] = nodes
  await third?.stop()
  const [holder, other] = [bare(over(nodes)), bare(over(nodes))]
  const lock = uniqueName()
  const grant = await holder.take(holder.request(lock))
  await third?.start()
  await second?.restart({ hard: true })
  await until(async () => 'busy' in (await other.adapter.attempt(other.request(lock)).catch(() => ({}))))
  const renewal = { grant, ttlMs: 20_000, lockDelayMs: 0 }
  await until(async () => (await holder.adapter.renew([renewal]))[0] === 'renewed')
  expect(await heldOn(nodes.slice(1, 2), lock)).toBe(1)
})

test('a majority that comes back empty lets in a second holder, whose fence exposes the first', async () => {
  const { servers: nodes } = await servers(3)
  const [, second, third] = nodes
  const [holder, other] = [bare(over(nodes)), bare(over(nodes))]
  const lock = uniqueName()
  const start = performance.now()
  const stale = await holder.take(holder.request(lock))
  // A vote that was still on its way would reach the node that came back, and make a majority again.
  await until(async () => (await heldOn(nodes, lock)) === 3)
  for (const node of [second, third]) await node?.restart({ hard: true, wipe: true })
  const next = await until(async () => {
    const answer = await other.adapter.attempt(other.request(lock)).catch(() => undefined)
    return answer !== undefined && 'fence' in answer && answer
  })
  await assertInTime('the end', stale.ttlMs, performance.now() - start)
  expect(next.fence).toBeGreaterThan(stale.fence)
  const renewal = { grant: stale, ttlMs: 20_000, lockDelayMs: 0 }
  await until(async () => (await holder.adapter.renew([renewal]))[0] === 'lost')
})

test('a node that stays away for longer than any ttl may come back empty', async () => {
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

test('with three of five nodes down it fails fast, says why for each, and leaves nothing behind', async () => {
  const { servers: nodes } = await servers(5)
  const up = nodes.slice(0, 2)
  const nodeTimeoutMs = 10_000
  const { adapter, request, take } = bare(over(nodes, { nodeTimeoutMs }))
  await adapter.release(await take(request(uniqueName())))
  await Promise.all(nodes.slice(2).map((node) => node.stop()))
  const lock = uniqueName()
  const start = performance.now()
  const failure: unknown = await adapter.attempt(request(lock)).catch((error: unknown) => error)
  const tookMs = performance.now() - start
  console.log(`three of five down: failed after ${tookMs.toFixed(0)} ms`)
  await assertInTime('the answer', nodeTimeoutMs, tookMs)
  expect(failure).toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  const cause = failure instanceof Error ? failure.cause : undefined
  const told = cause instanceof AggregateError ? cause.errors.map(String) : []
  // The two that work may be slower to answer than three refused connections are to fail.
  expect(told.slice(0, 2).join()).toMatch(/node 1: (ok|not waited for).*node 2: (ok|not waited for)/)
  for (const n of [3, 4, 5]) expect(told[n - 1]).toMatch(new RegExp(`node ${n}: @locks/redis: Redis failed`))
  await until(async () => (await heldOn(up, lock)) === 0)
})

test('a quorum below the majority is refused', () => {
  const nodes = ['redis://a', 'redis://b', 'redis://c']
  expect(() => redlock({ nodes, quorum: 1 })).toThrow(/quorum must be a whole number from 2 to 3/)
  expect(() => redlock({ nodes: nodes.slice(0, 2), quorum: 1 })).toThrow(/from 2 to 2/)
  redlock({ nodes, quorum: 3 })
})
