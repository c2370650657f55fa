import { assertInTime } from '@locks/core/conformance'
import { Redis } from 'ioredis'
import { setTimeout as pass } from 'node:timers/promises'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { scriptsOf } from '../src/queue-scripts.ts'
import {
  at,
  bare,
  commandCounts,
  connect,
  entryOf,
  exists,
  holdersOf,
  proxied,
  queued,
  uniqueName,
  until,
} from './support/bed.ts'

const service = await startService('redis', { needsControl: true })
afterAll(() => service.close())
const server = service.server('redis')

test('an acquire whose reply was lost is sent again: its holder keeps the lock, counted once', async () => {
  const proxy = await proxied(server)
  const locks = connect(at(proxy))
  await locks.with(uniqueName(), () => undefined)
  const lock = uniqueName()
  const swallowed = proxy.swallowNextReply()
  const lease = await locks.lock(lock).acquire()
  await swallowed
  expect((await holdersOf(server, lock)).map(([, count]) => count)).toEqual(['1'])
  expect((await locks.inspect(lock)).holder?.fence).toBe(lease.fence)
  await lease.release()
  expect(await exists(server, lock)).toBe(false)
})

test('a release whose reply was lost is sent again, and neither fails nor frees the next holder', async () => {
  const proxy = await proxied(server)
  const [locks, others] = [connect(at(proxy)), connect(at(server))]
  const lock = uniqueName()
  const lease = await locks.lock(lock).acquire()
  const turn = others.lock(lock).acquire()
  await queued(others, lock)
  const swallowed = proxy.swallowNextReply()
  await lease.release()
  await swallowed
  const next = await turn
  expect(next.fence).toBeGreaterThan(lease.fence)
  expect(await holdersOf(server, lock)).toHaveLength(1)
  expect((await others.inspect(lock)).holder?.fence).toBe(next.fence)
})

test('a break whose reply was lost is sent again, and not taken for one that came too late', async () => {
  const proxy = await proxied(server)
  const [holder, operator] = [connect(at(server)), connect(at(proxy))]
  // The server knows the script from here on.
  await operator.lock((await holder.lock(uniqueName()).acquire()).name).break()
  const lease = await holder.lock(uniqueName()).acquire()
  const { sha } = scriptsOf(false, 0).break
  const swallowed = proxy.swallowNextReply({ matching: (request) => request.includes(sha) })
  expect(await operator.lock(lease.name).break()).toMatchObject({ fence: lease.fence })
  await swallowed
  expect(await exists(server, lease.name)).toBe(false)
})

test('a renewal whose reply was lost is sent again: the lease goes on, nothing is orphaned', async () => {
  const proxy = await proxied(server)
  const locks = connect(at(proxy))
  const lock = uniqueName()
  const lease = await locks.lock(lock).acquire()
  const swallowed = proxy.swallowNextReply()
  await lease.extend()
  await swallowed
  expect(await holdersOf(server, lock)).toHaveLength(1)
  expect((await locks.inspect(lock)).holder?.fence).toBe(lease.fence)
  await lease.release()
  expect(await exists(server, lock)).toBe(false)
})

test('a release between a failed attempt and the subscription is not missed', async () => {
  const proxy = await proxied(server)
  const [holder, locks] = [connect(at(server)), connect(at(proxy))]
  await locks.with(uniqueName(), () => undefined)
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire({ ttlMs: 300_000 })
  proxy.delay(300)
  const before = await commandCounts(server)
  const start = performance.now()
  const turn = locks.lock(lock).acquire({ waitMs: 60_000 })
  // The busy answer is on its way back then, the subscription has not been asked for.
  await until(async () => (await commandCounts(server)).total > before.total)
  await lease.release()
  const next = await turn
  expect(next.fence).toBeGreaterThan(lease.fence)
  await assertInTime('the end', 30_000, performance.now() - start)
})

test('a waiter that Redisson woke but another client beat keeps waiting, and gets the next release', async () => {
  const locks = connect(at(server))
  const lock = uniqueName()
  await redisCommand(server, 'HSET', lock, '4d0f3c1e-7a52-4b6e-9d21-5c8e0b7f9a13:1', 1)
  await redisCommand(server, 'PEXPIRE', lock, 60_000)
  const channel = `redisson_lock__channel:{${lock}}`
  const turn = locks.lock(lock).acquire({ waitMs: 30_000 })
  await until(async () => String(await redisCommand(server, 'PUBSUB', 'NUMSUB', channel)).endsWith(',1'))
  // Another Java thread was faster.
  expect(await redisCommand(server, 'PUBLISH', channel, '0')).toBe(1)
  expect(await Promise.race([turn, pass(200)])).toBeUndefined()
  expect(await holdersOf(server, lock)).toEqual([['4d0f3c1e-7a52-4b6e-9d21-5c8e0b7f9a13:1', '1']])
  const start = performance.now()
  await redisCommand(server, 'DEL', lock)
  await redisCommand(server, 'PUBLISH', channel, '0')
  const lease = await turn
  await assertInTime('the end', 15_000, performance.now() - start)
  await lease.release()
  expect(await exists(server, lock, `locks_queue:{${lock}}`)).toBe(false)
  await until(async () => String(await redisCommand(server, 'PUBSUB', 'NUMSUB', channel)).endsWith(',0'))
})

test('an aborted acquire that the server grants leaves nothing behind', async () => {
  const proxy = await proxied(server)
  const locks = connect(at(proxy))
  await locks.with(uniqueName(), () => undefined)
  const lock = uniqueName()
  proxy.blackhole('replies')
  const controller = new AbortController()
  const outcome = locks.lock(lock).acquire({ signal: controller.signal })
  await until(() => exists(server, lock))
  controller.abort('given up')
  await expect(outcome).rejects.toBe('given up')
  proxy.pass()
  await until(async () => !(await exists(server, lock)))
})

test('a withdrawal never overtakes its own attempt, not even the first of a client', async () => {
  await redisCommand(server, 'SCRIPT', 'FLUSH')
  const locks = connect(at(server))
  const lock = uniqueName()
  const controller = new AbortController()
  const outcome = locks.lock(lock).acquire({ signal: controller.signal })
  controller.abort('given up')
  await expect(outcome).rejects.toBe('given up')
  // It waits for the attempt and for its withdrawal.
  await locks.close()
  expect(await exists(server, lock)).toBe(false)
})

test('a grant for a withdrawn attempt is released by the client that receives it', async () => {
  const [holder, other] = [bare(at(server)), bare(at(server))]
  const lock = uniqueName()
  const held = await holder.take(holder.request(lock))
  const late = other.request(lock, { willWait: true })
  await other.adapter.attempt(late)
  await other.adapter.wait?.(late, 60_000, new AbortController().signal)
  await other.adapter.attempt(late)
  const entry = await entryOf(server, lock)
  await other.adapter.withdraw?.(late)
  await holder.adapter.release(held)
  // The same request again, from a slow connection: it enqueues an attempt that was withdrawn.
  await redisCommand(server, 'ZADD', `locks_queue:{${lock}}`, 1, entry)
  expect(await holder.adapter.attempt(holder.request(lock))).toMatchObject({ busy: true })
  await until(async () => !(await exists(server, lock)))
})

test('a grant for an attempt that got the lock otherwise, and has released it, is handed back too', async () => {
  const proxy = await proxied(server)
  const [holder, other] = [bare(at(server)), bare(at(proxy))]
  const lock = uniqueName()
  const held = await holder.take(holder.request(lock))
  const wanted = other.request(lock, { willWait: true })
  await other.adapter.attempt(wanted)
  await other.adapter.wait?.(wanted, 60_000, new AbortController().signal)
  await other.adapter.attempt(wanted)
  const entry = await entryOf(server, lock)
  // It cannot listen for a while, and gets the lock by looking.
  proxy.retarget({ host: server.host, port: 1 })
  await redisCommand(server, 'CLIENT', 'KILL', 'TYPE', 'pubsub')
  await until(() => proxy.stats.connections > 2)
  await holder.adapter.release(held)
  await other.adapter.release(await other.take(wanted))
  proxy.retarget({ host: server.host, port: server.port })
  const channel = `locks_grants:${wanted.attemptId.split(':')[0]}`
  await until(async () => String(await redisCommand(server, 'PUBSUB', 'NUMSUB', channel)).endsWith(',1'))
  // As if a request of that attempt had come late: the lock is granted to it.
  await redisCommand(server, 'ZADD', `locks_queue:{${lock}}`, 1, entry)
  expect(await holder.adapter.attempt(holder.request(lock))).toMatchObject({ busy: true })
  await until(async () => !(await exists(server, lock)))
})

test('a grant of another lock than the attempt is for is handed back, and not taken for its own', async () => {
  const [holder, other] = [bare(at(server)), bare(at(server))]
  const [lock, another] = [uniqueName(), uniqueName()]
  const held = await holder.take(holder.request(lock))
  const wanted = other.request(lock, { willWait: true })
  const { signal } = new AbortController()
  await other.adapter.attempt(wanted)
  await other.adapter.wait?.(wanted, 60_000, signal)
  await other.adapter.attempt(wanted)
  const turn = other.adapter.wait?.(wanted, 60_000, signal)
  const heldToo = await holder.take(holder.request(another))
  await other.adapter.attempt({ ...wanted, name: another })
  const entry = await entryOf(server, another)
  await holder.adapter.release(heldToo)
  await until(async () => !(await exists(server, another)))
  await holder.adapter.release(held)
  const pushed = await turn
  expect(pushed?.fence).toBe((await holder.adapter.inspect(lock)).holder?.fence)
  // Neither is it once that attempt has its lock: a look finds the other one given to it.
  await redisCommand(server, 'ZADD', `locks_queue:{${another}}`, 1, entry)
  expect(await holder.adapter.attempt(holder.request(another))).toMatchObject({ busy: true })
  await until(async () => !(await exists(server, another)))
})

test('an attempt whose grant was never answered is not kept out by the lock-delay of that grant', async () => {
  const { adapter, request, take } = bare(at(server))
  const wanted = request(uniqueName(), { ttlMs: 50, lockDelayMs: 60_000 })
  const first = await take(wanted)
  await until(async () => Number(await redisCommand(server, 'PTTL', wanted.name)) <= 60_000)
  expect(await adapter.attempt(request(wanted.name))).toMatchObject({ busy: true })
  const second = await take({ ...wanted, ttlMs: 20_000 })
  expect(second.fence).toBeGreaterThan(first.fence)
  expect(await adapter.renew([{ grant: second, ttlMs: 20_000, lockDelayMs: 60_000 }])).toEqual(['renewed'])
  expect(await adapter.release(second)).toBe('released')
})

test('a try whose grant was lost for longer than its ttl is an outage, and not kept out by itself', async () => {
  const proxy = await proxied(server)
  // It sends again by itself what was not answered.
  const client = new Redis({ host: proxy.host, port: proxy.port, maxRetriesPerRequest: null })
  client.on('error', () => undefined)
  onTestFinished(() => client.disconnect())
  const locks = connect({ client, prefix: '' }, { storeTimeoutMs: 20_000 })
  await locks.with(uniqueName(), () => undefined)
  const lock = uniqueName()
  const swallowed = proxy.swallowNextReply()
  const once = { ttlMs: 200, lockDelayMs: 60_000, retry: { attempts: 1 } }
  const outcome = locks.lock(lock).tryAcquire(once)
  const failed = expect(outcome).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  proxy.retarget({ host: server.host, port: 1 })
  await swallowed
  await until(async () => {
    const leftMs = Number(await redisCommand(server, 'PTTL', lock))
    return leftMs > 0 && leftMs <= 60_000
  })
  proxy.retarget({ host: server.host, port: server.port })
  await failed
  expect(await locks.lock(lock).tryAcquire()).not.toBeNull()
})
