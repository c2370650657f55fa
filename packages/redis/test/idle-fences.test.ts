import { redis } from '@locks/redis'
import type { Finding } from '@locks/core/adapter'
import type { RedisOptions } from '@locks/redis'
import { afterAll, expect, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { hammerPrune } from '../../../conformance/test-support/prune-hammer.ts'
import { at, bare, commandCounts, connect, enqueue, uniqueName } from './support/bed.ts'

// What Redis keeps of names that are not used any more.

const service = await startService('redis')
afterAll(() => service.close())
const server = service.server('redis')
const { host, port } = server
const prefixed: RedisOptions = { connection: { host, port } }

const DAY_MS = 86_400_000
const tokenOf = (lock: string): string => `redisson_lock_token:{locks:${lock}}`
const numberOf = async (...command: [string, ...(string | number)[]]): Promise<number> =>
  Number(await redisCommand(server, ...command))
const nowMs = async (): Promise<number> => {
  const time = await redisCommand(server, 'TIME')
  return Array.isArray(time) ? Number(time[0]) * 1_000 + Number(time[1]) / 1_000 : Number.NaN
}

test('the fence of a name expires a day after its last grant, and that costs no command', async () => {
  const locks = connect(prefixed)
  await locks.with(uniqueName(), () => undefined)
  const lock = uniqueName()
  const before = await commandCounts(server)
  await locks.with(lock, () => undefined)
  expect((await commandCounts(server)).total - before.total).toBe(2)
  const leftMs = await numberOf('PTTL', tokenOf(lock))
  expect(leftMs).toBeGreaterThan(DAY_MS - 600_000)
  expect(leftMs).toBeLessThanOrEqual(DAY_MS)
  expect(await redisCommand(server, 'EXISTS', `locks:${lock}`)).toBe(0)
})

test('a grant by hand-off renews the expiry of its fence', async () => {
  const options = { ...prefixed, fenceIdleMs: 3_600_000 }
  const holder = bare(options)
  const lock = uniqueName()
  const grant = await holder.take(holder.request(lock))
  const waiter = await enqueue(options, lock, redis)
  await redisCommand(server, 'PERSIST', tokenOf(lock))
  await holder.adapter.release(grant)
  await waiter.adapter.wait?.(waiter.wanted, 10_000, new AbortController().signal)
  expect(await numberOf('PTTL', tokenOf(lock))).toBeGreaterThan(0)
})

test('diagnose reports how many fences are kept, and for how long the oldest', async () => {
  const prefix = `${uniqueName()}:`
  const locks = connect({ ...at(server), prefix })
  const finding = async (): Promise<Finding | undefined> =>
    (await locks.diagnose()).find(({ check }) => check === 'leftovers')
  expect(await finding()).toMatchObject({ level: 'ok', message: 'the fences of 0 names are kept' })
  for (const lock of ['old', 'new']) await locks.with(lock, () => undefined)
  const halfADayAgo = BigInt(Math.round((await nowMs()) - DAY_MS / 2)) * 1_000n
  await redisCommand(server, 'SET', `redisson_lock_token:{${prefix}old}`, String(halfADayAgo), 'KEEPTTL')
  expect(await finding()).toMatchObject({
    level: 'ok',
    message: 'the fences of 2 names are kept, the oldest for 0.5 days; each expires when its name is idle',
  })
})

test('a fence that is ahead of the clock is kept until the clock is past it by the idle time', async () => {
  const locks = connect({ ...prefixed, fenceIdleMs: 5_000 })
  const lock = uniqueName()
  const aheadMs = 3_600_000
  const ahead = BigInt(Math.round((await nowMs()) + aheadMs)) * 1_000n
  await redisCommand(server, 'SET', tokenOf(lock), String(ahead))
  const { fence } = await locks.lock(lock).acquire()
  expect(fence).toBe(ahead + 1n)
  const endsAt = (await nowMs()) + (await numberOf('PTTL', tokenOf(lock)))
  expect(endsAt).toBeGreaterThan(Number(ahead / 1_000n) + 5_000 - 100)
})

test('after its fence is gone a name gets a higher one, also while its last holder still holds', async () => {
  const locks = connect(prefixed)
  const lock = uniqueName()
  const lease = await locks.lock(lock).acquire()
  await redisCommand(server, 'DEL', tokenOf(lock))
  await lease.release()
  const fences = [lease.fence]
  for (let n = 0; n < 200; n += 1) {
    await locks.with(lock, ({ fence }) => void fences.push(fence))
    await redisCommand(server, 'DEL', tokenOf(lock))
  }
  expect(fences).toEqual(fences.toSorted((a, b) => (a < b ? -1 : 1)))
  expect(new Set(fences).size).toBe(fences.length)
})

test('a fence written without an end gets one with the next grant, and by prune', async () => {
  const locks = connect(prefixed)
  const [used, unused, held, young] = [uniqueName(), uniqueName(), uniqueName(), uniqueName()]
  const old = BigInt(Math.round((await nowMs()) - 2 * DAY_MS)) * 1_000n
  for (const lock of [used, unused]) await redisCommand(server, 'SET', tokenOf(lock), String(old))
  await locks.with(used, () => undefined)
  expect(await numberOf('PTTL', tokenOf(used))).toBeGreaterThan(0)
  const lease = await locks.lock(held).acquire()
  await redisCommand(server, 'SET', tokenOf(held), String(old))
  await locks.with(young, () => undefined)
  const found = (await locks.diagnose()).find(({ check }) => check === 'leftovers')
  expect(found?.level).toBe('warning')
  expect(found?.message).toMatch(/\d+ of them never expire, the oldest is 2\.0 days old/)
  expect(await locks.prune()).toBe(1)
  expect(await numberOf('EXISTS', tokenOf(unused), tokenOf(used), tokenOf(held), tokenOf(young))).toBe(3)
  await lease.release()
  expect(await locks.prune({ idleMs: 0 })).toBeGreaterThanOrEqual(2)
  await locks.with(unused, ({ fence }) => expect(fence).toBeGreaterThan(old))
})

test('a name that is pruned while others acquire it has one holder, and its fences rise', async () => {
  await hammerPrune(() => connect(prefixed), uniqueName(), { tries: 200, atLeast: 50 })
})

test('what is shared with Redisson, which counts from that key alone, neither expires nor is pruned', async () => {
  const locks = connect(at(server))
  const lock = uniqueName()
  const token = `redisson_lock_token:{${lock}}`
  await locks.with(lock, () => undefined)
  expect(await numberOf('PTTL', token)).toBe(-1)
  expect(await locks.prune({ idleMs: 0 })).toBe(0)
  expect(await numberOf('EXISTS', token)).toBe(1)
})

test.each([-1, 1, 999, 1.5, Number.NaN, Infinity, 40_000_000_000])(
  'a fenceIdleMs of %s is refused',
  (fenceIdleMs) => {
    const error: unknown = expect.objectContaining({ code: 'LOCK_INVALID_ARGUMENT' })
    expect(() => redis({ ...prefixed, fenceIdleMs })).toThrow(error)
  },
)
