import { assertInTime, eventually } from '@locks/core/conformance'
import { redisGuard } from '@locks/redis'
import { Redis } from 'ioredis'
import { afterAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import {
  currentPrimary,
  cutReplication,
  healReplication,
  redisCommand,
  redisFields,
  sentinelPrimaryName,
  startService,
} from '../../../conformance/services/index.ts'
import type { Address, Service } from '../../../conformance/services/index.ts'
import { startProgram } from '../../../conformance/test-support/program.ts'
import { at, bare, connect, exists, hungServer, queued, uniqueName, until } from './support/bed.ts'

const service = await startService('redis-sentinel', {
  sentinelSettings: { 'down-after-milliseconds': 60_000 },
  needsControl: true,
})
afterAll(() => service.close())
const [primary, replica] = [service.server('primary'), service.server('replica')]

beforeEach(async () => {
  await until(async () => {
    return (await redisFields(replica, 'INFO', 'replication')).get('master_link_status') === 'up'
  })
})

function sentinelOptions({ servers }: Service): { sentinels: Address[]; name: string } {
  const sentinels = servers.filter(({ name }) => name.startsWith('sentinel'))
  return { sentinels: sentinels.map(({ host, port }) => ({ host, port })), name: sentinelPrimaryName }
}

test('a replica answers READONLY, which is an outage', async () => {
  const { adapter, request } = bare(at(replica))
  const failure = { code: 'LOCK_UNAVAILABLE', cause: { code: 'READONLY' } }
  await expect(adapter.attempt(request(uniqueName()))).rejects.toMatchObject(failure)
})

test('a replica that lost its primary and may not answer is an outage (MASTERDOWN)', async () => {
  await redisCommand(replica, 'CONFIG', 'SET', 'replica-serve-stale-data', 'no')
  await cutReplication(service)
  onTestFinished(async () => {
    await redisCommand(replica, 'CONFIG', 'SET', 'replica-serve-stale-data', 'yes')
    await healReplication(service)
  })
  await until(async () => {
    const failure = await redisCommand(replica, 'GET', 'a').catch((error: unknown) => String(error))
    return String(failure).includes('MASTERDOWN')
  })
  const connection = { host: replica.host, port: replica.port, enableReadyCheck: false }
  const { adapter, request } = bare({ connection, serverSettings: 'ignore' })
  const failure = { code: 'LOCK_UNAVAILABLE', cause: { code: 'MASTERDOWN' } }
  await expect(adapter.attempt(request(uniqueName()))).rejects.toMatchObject(failure)
})

test('a server that is still loading its data is an outage (LOADING)', async () => {
  // A debugging aid of the server makes it slow to load, until this test has seen enough.
  const settings = {
    save: '3600 1',
    rdbcompression: 'no',
    'key-load-delay': 20_000,
    'loading-process-events-interval-bytes': 1024,
  }
  await using slow = await startService('redis', { settings, needsControl: true })
  const server = slow.server('redis')
  const fill = `for n = 1, 15000 do redis.call('SET', 'key:' .. n, string.rep('x', 1024)) end`
  await redisCommand(server, 'EVAL', fill, 0)
  const restarted = server.restart()
  await until(async () => {
    const failure = await redisCommand(server, 'GET', 'a').catch((error: unknown) => String(error))
    return String(failure).includes('LOADING')
  })
  const connection = { host: server.host, port: server.port, enableReadyCheck: false }
  const { adapter, request } = bare({ connection, serverSettings: 'ignore' })
  const failure = { code: 'LOCK_UNAVAILABLE', cause: { code: 'LOADING' } }
  await expect(adapter.attempt(request(uniqueName()))).rejects.toMatchObject(failure)
  // With ioredis' own ready check it waits until the data is there.
  // It asks again after as long as the server thinks that it needs, unless that is limited.
  const place = { host: server.host, port: server.port, maxLoadingRetryTime: 500 }
  const patient = connect({ connection: place }, { storeTimeoutMs: 20_000 })
  const granted = patient.with(uniqueName(), () => undefined)
  await redisCommand(server, 'CONFIG', 'SET', 'key-load-delay', 0)
  await granted
  await restarted
})

test('WAIT is sent on the connection that wrote, and counts the replica', async () => {
  const locks = connect({ ...at(primary), waitForReplicas: 1 })
  const lock = uniqueName()
  const lease = await locks.lock(lock).acquire()
  expect(await exists(replica, lock)).toBe(true)
  await lease.release()
})

test('a grant that too few replicas have is withdrawn', async () => {
  const [locks, plain] = [
    connect({ ...at(primary), waitForReplicas: 1, waitForReplicasMs: 200 }),
    connect(at(primary)),
  ]
  await locks.with(uniqueName(), () => undefined)
  await cutReplication(service)
  onTestFinished(() => healReplication(service))
  const lock = uniqueName()
  await expect(locks.lock(lock).tryAcquire({ retry: { attempts: 1 } })).rejects.toThrow(/0 of 1 replicas/)
  expect(await exists(primary, lock)).toBe(false)
  // Without the wish for replicas it can be acquired.
  await plain.with(lock, () => undefined)
})

test('a missing replica delays grants, never renewals', async () => {
  const locks = connect({ ...at(primary), waitForReplicas: 1, waitForReplicasMs: 4_000 })
  const lease = await locks.lock(uniqueName()).acquire()
  await cutReplication(service)
  onTestFinished(() => healReplication(service))
  const order: string[] = []
  const bound = { ms: 4_000, from: 'waitForReplicasMs' }
  const startedAt = performance.now()
  const grant = locks
    .lock(uniqueName())
    .tryAcquire()
    .catch(() => order.push('grant'))
  const blocked = /cmd=wait/
  const isBlocked = async (): Promise<boolean> =>
    blocked.test(String(await redisCommand(primary, 'CLIENT', 'LIST')))
  await eventually('the grant waits for a replica', bound, isBlocked)
  await lease.extend()
  order.push('renewal')
  await assertInTime('the renewal', bound, performance.now() - startedAt)
  await grant
  expect(order).toEqual(['renewal', 'grant'])
})

test('a hand-off also waits for replicas', async () => {
  const options = { ...at(primary), waitForReplicas: 1 }
  const [holder, other] = [connect(options), connect(options)]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire()
  const turn = other.lock(lock).acquire()
  await queued(holder, lock)
  await lease.release()
  const next = await turn
  expect(await redisCommand(replica, 'HGET', lock, 'hold')).toContain(String(next.fence))
})

test('many grants that wait for replicas at the same time are no leak of listeners', async () => {
  const warnings: string[] = []
  const warned = ({ name, message }: Error): void =>
    void (name === 'MaxListenersExceededWarning' && warnings.push(message))
  process.on('warning', warned)
  onTestFinished(() => void process.off('warning', warned))
  const locks = connect({ ...at(primary), waitForReplicas: 1 })
  await Promise.all(Array.from({ length: 20 }, () => locks.with(uniqueName(), () => undefined)))
  expect(warnings).toEqual([])
})

test('a Sentinel that hangs is passed over', async () => {
  const { sentinels, name } = sentinelOptions(service)
  const { request, take } = bare({ connection: { sentinels: [await hungServer(), ...sentinels], name } })
  await take(request(uniqueName()))
})

test('a process that listens to Sentinels ends by itself, although one of them is down', async () => {
  const { sentinels, name } = sentinelOptions(service)
  const connection = { sentinels: [...sentinels, { host: '127.0.0.1', port: 1 }], name }
  const program = `
    import { createLocks } from '@locks/core'
    import { redis } from '@locks/redis'
    const locks = createLocks(redis({ connection: ${JSON.stringify(connection)} }))
    await locks.with(${JSON.stringify(uniqueName())}, () => undefined)
    console.log('done')
  `
  const { exited } = await startProgram(program, import.meta.dirname)
  expect(await exited).toEqual([0, null])
})

test('failover in mid-hold: waiters get the lock from the new primary, and the fence exposes the stale holder', async () => {
  await using own = await startService('redis-sentinel', { needsControl: true })
  const connection = sentinelOptions(own)
  const [holder, waiter] = [
    connect({ connection }, { storeTimeoutMs: 30_000 }),
    connect({ connection }, { storeTimeoutMs: 30_000 }),
  ]
  const lock = uniqueName()
  await holder.with(lock, () => undefined)
  // From here on nothing reaches the replica: the grant is lost with the primary.
  await cutReplication(own)
  const stale = await holder.lock(lock).acquire({ ttlMs: 600_000 })
  const turn = waiter.lock(lock).acquire({ waitMs: 60_000 })
  await queued(holder, lock)
  const before = await currentPrimary(own)
  await own.server('primary').kill()
  const next = await turn
  expect(await currentPrimary(own)).not.toEqual(before)
  expect(stale.state).not.toBe('lost')
  expect(next.fence).toBeGreaterThan(stale.fence)
  const user = new Redis(connection)
  onTestFinished(() => user.disconnect())
  const guard = redisGuard(user, uniqueName('guard'))
  await guard.register(next.fence)
  await expect(guard.register(stale.fence)).rejects.toMatchObject({ code: 'LOCK_LOST' })
  await until(async () => (await stale.extend().catch(() => undefined), stale.state === 'lost'))
  expect(next.state).toBe('held')
  await next.release()
  await waiter.with(lock, () => undefined)
})
