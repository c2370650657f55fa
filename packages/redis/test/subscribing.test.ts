import { Redis } from 'ioredis'
import { randomUUID } from 'node:crypto'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { startProgram } from '../../../conformance/test-support/program.ts'
import { scriptsOf } from '../src/queue-scripts.ts'
import { at, bare, connect, enqueue, exists, pushedTo, queued, uniqueName, until } from './support/bed.ts'

const service = await startService('redis', { needsControl: true })
afterAll(() => service.close())
const server = service.server('redis')

test('a waiter that is subscribed to a replica only is dropped by the primary, and gets no grant', async () => {
  await using sentinels = await startService('redis-sentinel')
  const [primary, replica] = [sentinels.server('primary'), sentinels.server('replica')]
  const [holder, waiter] = [connect(at(primary)), connect(at(primary))]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire()
  const turn = waiter.lock(lock).acquire({ waitMs: 60_000 })
  await queued(holder, lock)
  // As after a failover that left its subscription behind on what was the primary.
  const stranded = randomUUID()
  const channel = `locks_grants:${stranded}`
  const subscriber = new Redis({ host: replica.host, port: replica.port })
  onTestFinished(() => subscriber.disconnect())
  const heard: string[] = []
  subscriber.on('message', (_channel, text) => heard.push(text))
  await subscriber.subscribe(channel)
  await redisCommand(primary, 'ZADD', `locks_queue:{${lock}}`, 1, `${stranded}:1 20000 0 secret {}`)
  await lease.release()
  const next = await turn
  expect((await holder.inspect(lock)).holder?.fence).toBe(next.fence)
  // Replicated behind what the release published.
  await redisCommand(primary, 'PUBLISH', channel, 'marker')
  await until(() => heard.includes('marker'))
  expect(heard).toEqual(['marker'])
})

test('an attempt without a subscription is not enqueued', async () => {
  const { request, take } = bare(at(server))
  const lock = uniqueName()
  await take(request(lock))
  const keys = [lock, `redisson_lock_token:{${lock}}`, `locks_queue:{${lock}}`]
  const late = `${randomUUID()}:1`
  const call = [
    scriptsOf(false, 0).acquire.text,
    keys.length,
    ...keys,
    late,
    20_000,
    '{}',
    0,
    2_000,
    'secret',
    'call',
  ]
  const reply = await redisCommand(server, 'EVAL', ...call)
  expect(reply).toMatchObject(['call', { 1: -1 }])
  expect(await exists(server, `locks_queue:{${lock}}`)).toBe(false)
})

test('when the waiters that watch for releases of Redisson leave, the next in the queue watches', async () => {
  const lock = uniqueName()
  await redisCommand(server, 'HSET', lock, '4d0f3c1e-7a52-4b6e-9d21-5c8e0b7f9a13:1', 1)
  await redisCommand(server, 'PEXPIRE', lock, 600_000)
  const observer = connect(at(server))
  const channel = `redisson_lock__channel:{${lock}}`
  const listeners = async (): Promise<number> =>
    Number(String(await redisCommand(server, 'PUBSUB', 'NUMSUB', channel)).split(',')[1])
  const waiters = Array.from({ length: 3 }, () => ({
    client: connect(at(server)),
    leave: new AbortController(),
  }))
  const turns: Promise<unknown>[] = []
  for (const [n, { client, leave }] of waiters.entries()) {
    const turn = client.lock(lock).acquire({ waitMs: 60_000, signal: leave.signal })
    turns.push(turn.catch(() => 'left'))
    await queued(observer, lock, n + 1)
  }
  await until(async () => (await listeners()) === 2)
  for (const { leave } of waiters.slice(0, 2)) leave.abort()
  await until(async () => (await observer.inspect(lock)).waiters === 1 && (await listeners()) === 1)
  await redisCommand(server, 'DEL', lock)
  await redisCommand(server, 'PUBLISH', channel, '0')
  expect(await turns[2]).not.toBe('left')
})

test('when the waiters that got a hint of the end of a claim leave, the next in the queue looks then', async () => {
  const holder = bare(at(server))
  const lock = uniqueName()
  const grant = await holder.take(holder.request(lock))
  // The first never renews what it is given.
  const [paused, ...heirs] = [
    await enqueue(at(server), lock),
    await enqueue(at(server), lock),
    await enqueue(at(server), lock),
  ]
  const last = await enqueue(at(server), lock)
  const releasedAt = performance.now()
  await holder.adapter.release(grant)
  await pushedTo(paused, releasedAt)
  const { signal } = new AbortController()
  for (const { adapter, wanted } of heirs) await adapter.withdraw?.(wanted)
  const look = async (maxMs: number): Promise<void> => {
    await last.adapter.wait?.(last.wanted, maxMs, signal)
    const answer = await last.adapter.attempt(last.wanted)
    if ('busy' in answer) await look(answer.retryInMs ?? 0)
  }
  await look(600_000)
})

test('a renewal that comes late, an adoption or a repeated attempt never bring the end forward', async () => {
  const { adapter, request, take } = bare(at(server))
  const wanted = request(uniqueName(), { ttlMs: 20_000 })
  const grant = await take(wanted)
  await adapter.renew([{ grant, ttlMs: 600_000, lockDelayMs: 0 }])
  await adapter.renew([{ grant, ttlMs: 1_000, lockDelayMs: 0 }])
  await take(wanted)
  const heir = request(wanted.name, { ttlMs: 1_000 })
  expect(await adapter.adopt?.({ ...grant, fence: grant.fence - 1n }, heir)).toBe('lost')
  expect(await adapter.adopt?.(grant, heir)).toMatchObject({ fence: grant.fence })
  expect(await adapter.adopt?.(grant, heir)).toMatchObject({ fence: grant.fence })
  expect(await redisCommand(server, 'PTTL', wanted.name)).toBeGreaterThan(300_000)
  expect(await adapter.renew([{ grant, ttlMs: 1_000, lockDelayMs: 0 }])).toEqual(['lost'])
})

test('a hold of Redisson that lasts for long is not asked for again and again', async () => {
  const { adapter, request } = bare(at(server))
  const lock = uniqueName()
  await redisCommand(server, 'HSET', lock, `${randomUUID()}:1`, 1)
  await redisCommand(server, 'PEXPIRE', lock, 2 ** 48)
  const wanted = request(lock, { willWait: true })
  const first = await adapter.attempt(wanted)
  expect('busy' in first && first.retryInMs).toBeGreaterThanOrEqual(500)
})

test('a program that is done ends although its server is gone', async () => {
  await using own = await startService('redis', { needsControl: true })
  const { host, port } = own.server('redis')
  const program = `
    import { createLocks } from '@locks/core'
    import { redis } from '@locks/redis'
    const locks = createLocks(redis({ connection: { host: '${host}', port: ${port} } }))
    const lease = await locks.lock('a').acquire({ renew: false, ttlMs: 60_000 })
    void locks.lock('a').acquire({ waitMs: 1 }).catch(() => undefined)
    process.stdout.write('held')
    await new Promise((resolve) => process.stdin.once('data', resolve))
    process.stdin.unref()
  `
  const { goOn, exited } = await startProgram(program, import.meta.dirname)
  await own.server('redis').kill()
  goOn()
  expect(await exited).toEqual([0, null])
})
