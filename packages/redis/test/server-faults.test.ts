import { isLockError } from '@locks/core'
import { assertInTime } from '@locks/core/conformance'
import type { RedisWarning } from '@locks/redis'
import { redisGuard } from '@locks/redis'
import { Redis } from 'ioredis'
import { inspect } from 'node:util'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { at, bare, connect, exists, hungServer, proxied, queued, uniqueName, until } from './support/bed.ts'

const service = await startService('redis', { needsControl: true })
afterAll(() => service.close())
const server = service.server('redis')

test('SCRIPT FLUSH in mid-hold changes nothing: renewal, hand-off and release still work', async () => {
  const [holder, other] = [connect(at(server)), connect(at(server))]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire()
  await redisCommand(server, 'SCRIPT', 'FLUSH')
  await lease.extend()
  const turn = other.lock(lock).acquire()
  await queued(holder, lock)
  await redisCommand(server, 'SCRIPT', 'FLUSH')
  await lease.release()
  await (await turn).release()
  expect(await exists(server, lock)).toBe(false)
})

for (const type of ['normal', 'pubsub'])
  test(`CLIENT KILL of ${type} connections loses neither a lease nor a waiter`, async () => {
    const [holder, other] = [connect(at(server)), connect(at(server))]
    const lock = uniqueName()
    const lease = await holder.lock(lock).acquire({ ttlMs: 60_000 })
    const turn = other.lock(lock).acquire({ waitMs: 20_000 })
    await queued(holder, lock)
    await redisCommand(server, 'CLIENT', 'KILL', 'TYPE', type)
    await lease.extend()
    if (type === 'pubsub')
      // Subscribed again, and in the queue again.
      await until(async () => (await pubsubClients()) >= 1 && (await holder.inspect(lock)).waiters === 1)
    const start = performance.now()
    await lease.release()
    const next = await turn
    await assertInTime('the end', 15_000, performance.now() - start)
    expect(next.fence).toBeGreaterThan(lease.fence)
  })

test('a waiter that missed a release while disconnected finds the free lock by polling', async () => {
  const proxy = await proxied(server)
  const [holder, other] = [connect(at(server)), connect(at(proxy))]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire({ ttlMs: 60_000 })
  const turn = other.lock(lock).acquire({ waitMs: 30_000 })
  await queued(holder, lock)
  proxy.refuse()
  await until(async () => (await pubsubClients()) === 0)
  // Nobody receives the grant, so the waiter counts as dead and the lock is free.
  await lease.release()
  expect(await exists(server, lock)).toBe(false)
  proxy.pass()
  const start = performance.now()
  await turn
  await assertInTime('the end', 15_000, performance.now() - start)
})

test('a connection that is accepted but never answered is given up, and the next one is used', async () => {
  const proxy = await proxied(await hungServer())
  const { request, take } = bare(at(proxy))
  const taken = take(request(uniqueName()))
  await until(() => proxy.stats.connections >= 1)
  proxy.retarget({ host: server.host, port: server.port })
  await taken
})

test('a subscriber on a connection that never answers moves to another connection', async () => {
  const proxy = await proxied(server)
  const [holder, other] = [connect(at(server)), connect(at(proxy))]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire({ ttlMs: 60_000 })
  expect(await other.lock(lock).tryAcquire()).toBeNull()
  proxy.retarget(await hungServer())
  const turn = other.lock(lock).acquire({ waitMs: 60_000 })
  // One that is given up is followed by another.
  await until(() => proxy.stats.connections >= 2)
  proxy.retarget({ host: server.host, port: server.port })
  await queued(holder, lock)
  await lease.release()
  await turn
})

test('during CLIENT PAUSE the lease ends at the client before it ends at the server', async () => {
  const locks = connect(at(server))
  const lock = uniqueName()
  const lease = await locks.lock(lock).acquire({ ttlMs: 3_000 })
  await redisCommand(server, 'CLIENT', 'PAUSE', 60_000, 'WRITE')
  onTestFinished(async () => void (await redisCommand(server, 'CLIENT', 'UNPAUSE')))
  let looks = 0
  while (lease.remainingMs > 0) {
    const [start, here] = [performance.now(), lease.remainingMs]
    const there = Number(await redisCommand(server, 'PTTL', lock))
    // What is left there was counted later than what is left here, by no more than the look took.
    if (there >= 0) expect(there + 1 + performance.now() - start).toBeGreaterThanOrEqual(here)
    looks += 1
  }
  expect(looks).toBeGreaterThan(0)
  await until(() => lease.signal.aborted)
  expect(isLockError(lease.signal.reason, 'LOCK_LOST')).toBe(true)
})

test('a server out of memory is an outage, never "held by another"', async () => {
  const { adapter, request } = bare(at(server))
  await adapter.inspect('warm-up')
  await redisCommand(server, 'CONFIG', 'SET', 'maxmemory', 1)
  onTestFinished(async () => void (await redisCommand(server, 'CONFIG', 'SET', 'maxmemory', 0)))
  const lock = uniqueName()
  const failure = { code: 'LOCK_UNAVAILABLE', cause: { code: 'OOM' } }
  await expect(adapter.attempt(request(lock))).rejects.toMatchObject(failure)
  expect(await exists(server, lock)).toBe(false)
})

test('a lock acquired before memory was full can be renewed, handed off and released', async () => {
  const [holder, other] = [connect(at(server)), connect(at(server))]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire()
  const turn = other.lock(lock).acquire()
  await queued(holder, lock)
  await redisCommand(server, 'CONFIG', 'SET', 'maxmemory', 1)
  onTestFinished(async () => void (await redisCommand(server, 'CONFIG', 'SET', 'maxmemory', 0)))
  await lease.extend()
  await lease.release()
  await (await turn).release()
})

test('an eviction policy that can drop locks causes a warning, or is refused', async () => {
  await redisCommand(server, 'CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
  onTestFinished(async () => {
    await redisCommand(server, 'CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
  })
  const warnings: RedisWarning[] = []
  const warned = connect({ ...at(server), onWarning: (warning) => warnings.push(warning) })
  for (let n = 0; n < 3; n += 1) await warned.with(uniqueName(), () => undefined)
  expect(warnings.map(({ code }) => code)).toEqual(['LOCKS_REDIS_EVICTION'])
  expect(warnings[0]?.message).toContain('allkeys-lru')
  const strict = connect({ ...at(server), serverSettings: 'refuse' })
  const lock = uniqueName()
  await expect(strict.lock(lock).acquire()).rejects.toMatchObject({ code: 'LOCK_UNSUPPORTED' })
  expect(await exists(server, lock)).toBe(false)
  const ignoring = connect({ ...at(server), serverSettings: 'ignore', onWarning: (w) => warnings.push(w) })
  await ignoring.with(uniqueName(), () => undefined)
  expect(warnings).toHaveLength(1)
})

test("when the server's clock jumps ahead a lock ends early, and its fence identifies the stale holder", async () => {
  const [holder, other] = [connect(at(server)), connect(at(server))]
  const lock = uniqueName()
  const user = new Redis({ host: server.host, port: server.port })
  onTestFinished(() => user.disconnect())
  const guard = redisGuard(user, uniqueName('guard'))
  const stale = await holder.lock(lock).acquire({ ttlMs: 30_000, renew: false })
  await guard.call(stale.fence, ['SET', `${lock}:value`, 'old'])
  // What a jump of 40 s does to a ttl of 30 s.
  await redisCommand(server, 'PEXPIRE', lock, 1)
  const successor = await other.lock(lock).acquire()
  expect(successor.fence).toBeGreaterThan(stale.fence)
  expect(stale.state).toBe('held')
  await guard.register(successor.fence)
  await expect(guard.call(stale.fence, ['SET', `${lock}:value`, 'stale'])).rejects.toMatchObject({
    code: 'LOCK_LOST',
  })
  expect(await redisCommand(server, 'GET', `${lock}:value`)).toBe('old')
  await expect(stale.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' })
})

test('the fence is at least the time of the server in µs, and goes on from a counter that is ahead of it', async () => {
  const { take, request, adapter } = bare(at(server))
  const lock = uniqueName()
  const token = `redisson_lock_token:{${lock}}`
  const first = await take(request(lock))
  expect(first.fence).toBeGreaterThan(BigInt(Date.now() - 60_000) * 1_000n)
  expect(await redisCommand(server, 'GET', token)).toBe(String(first.fence))
  await adapter.release(first)
  // The clock went back an hour.
  const ahead = first.fence + 3_600_000_000n
  await redisCommand(server, 'SET', token, String(ahead))
  const second = await take(request(lock))
  expect(second.fence).toBe(ahead + 1n)
  await adapter.release(second)
  // As an RFencedLock of Redisson counts.
  await redisCommand(server, 'INCR', token)
  expect((await take(request(lock))).fence).toBe(ahead + 3n)
  expect(await redisCommand(server, 'PTTL', token)).toBe(-1)
})

test('fences rise although the server forgot everything', async () => {
  const locks = connect(at(server))
  const lock = uniqueName()
  const lease = await locks.lock(lock).acquire()
  await server.restart({ hard: true, wipe: true })
  const next = await connect(at(server)).lock(lock).acquire()
  expect(next.fence).toBeGreaterThan(lease.fence)
})

test('errors do not show a password, nor the arguments of a command', async () => {
  const password = 'hunter2-and-more'
  const settings = { user: `locks on >${password} ~* &* +@all -time` }
  await using guarded = await startService('redis', { settings })
  const { host, port } = guarded.server('redis')
  const login = { username: 'locks', password }
  const { adapter, request } = bare({ connection: { host, port, ...login } })
  const wrong = bare({ connection: { host, port, ...login, password: `${password}!` } })
  const failures = [
    await adapter.attempt(request('a')).catch((error: unknown) => error),
    await wrong.adapter.attempt(wrong.request('a')).catch((error: unknown) => error),
  ]
  expect(failures[1]).toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  for (const failure of failures) {
    expect(isLockError(failure)).toBe(true)
    const shown = inspect(failure, { depth: 10, showHidden: true })
    expect(shown).not.toContain(password)
    expect(shown).not.toContain('args')
  }
  expect(inspect(adapter, { depth: 10, showHidden: true })).not.toContain(password)
})

async function pubsubClients(): Promise<number> {
  const list = String(await redisCommand(server, 'CLIENT', 'LIST', 'TYPE', 'pubsub'))
  return list.split('\n').filter((line) => line !== '').length
}
