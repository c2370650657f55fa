import { createLocks, isLockError } from '@locks/core'
import type { Finding, Lease, Locks } from '@locks/core'
import { redis } from '@locks/redis'
import type { RedisOptions } from '@locks/redis'
import { Redis } from 'ioredis'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import {
  currentPrimary,
  redisCommand,
  sentinelPrimaryName,
  startService,
} from '../../../conformance/services/index.ts'
import type { Address, Service } from '../../../conformance/services/index.ts'
import { connect, uniqueName, until } from './support/bed.ts'
import { mutate } from './support/mutate.ts'
import type { Factory } from './support/mutate.ts'

// After SENTINEL FAILOVER the old primary goes on answering as one for about ten seconds.

/** Shorter than Sentinels take from the promotion of a replica until they send clients to it. */
const TTL_MS = 500

/** When the lease was last said to be held: the start of the last check that passed. */
async function lastHeld(lease: Lease, over: AbortSignal): Promise<number> {
  let last = performance.now()
  while (!over.aborted) {
    const checkedAt = performance.now()
    try {
      lease.assertHeld()
    } catch (error) {
      if (isLockError(error, 'LOCK_LOST')) return last
      throw error
    }
    last = checkedAt
    await pause(2)
  }
  return last
}

/** Tries until it has the lock, or it is over. Returns when it got it. */
async function grantedAt(locks: Locks, name: string, over: AbortSignal): Promise<number | undefined> {
  while (!over.aborted) {
    const lease = await locks
      .lock(name)
      .tryAcquire({ ttlMs: TTL_MS, retry: { attempts: 1 } })
      .catch((error: unknown) => {
        if (isLockError(error, 'LOCK_UNAVAILABLE')) return null
        throw error
      })
    if (lease !== null) return performance.now()
    await pause(5)
  }
  return undefined
}

/** For how long two clients both held the lock around a planned failover. */
async function overlapMs(
  service: Service,
  options: RedisOptions,
  own: RedisOptions = options,
): Promise<number> {
  const patient = { storeTimeoutMs: 20_000 }
  const holder = connect(own, patient)
  const name = uniqueName()
  const lease = await holder.lock(name).acquire({ ttlMs: TTL_MS })
  const before = await currentPrimary(service)
  const over = new AbortController()
  const held = lastHeld(lease, over.signal)
  await redisCommand(service.server('sentinel-1'), 'SENTINEL', 'FAILOVER', sentinelPrimaryName)
  await until(async () => (await currentPrimary(service)).port !== before.port)
  // A client that connects now is sent to the new primary.
  const other = connect(options, patient)
  const granted = grantedAt(other, name, over.signal)
  await pause(5_000)
  // What a stall cost the holder goes to the other, later than this perhaps.
  if (lease.state === 'lost') await granted
  over.abort()
  const [heldUntil, from] = await Promise.all([held, granted])
  if (from === undefined) expect(lease.state).not.toBe('lost')
  // While there are servers to release it on.
  await Promise.all([holder.close(), other.close()])
  return from === undefined ? 0 : Math.max(0, heldUntil - from)
}

function connectionTo({ servers }: Service): { sentinels: Address[]; name: string } {
  const sentinels = servers.filter(({ name }) => name.startsWith('sentinel'))
  return { sentinels: sentinels.map(({ host, port }) => ({ host, port })), name: sentinelPrimaryName }
}

test.each([
  [1, 0],
  [2, 1],
])(
  'a planned failover makes no second holder: %i replicas, waitForReplicas %i',
  async (count, waitForReplicas) => {
    await using service = await startService('redis-sentinel', { count, needsControl: true })
    const options = { connection: connectionTo(service), waitForReplicas }
    expect(await overlapMs(service, options)).toBe(0)
  },
)

/** A busy machine may be through with a failover before the client has connected: then there is another one. */
const MOST_FAILOVERS = 10

interface Met {
  readonly service: Service
  readonly lock: string
  /** What the first try of the client came to. */
  readonly answer: unknown
}

/** Has a client connect when a replica has been promoted, and no client was sent there yet. */
async function meetFailover(factory: Factory, waitForReplicas = 1): Promise<Met & AsyncDisposable> {
  for (let tries = 0; tries < MOST_FAILOVERS; tries += 1) {
    const service = await startService('redis-sentinel', { count: 2, needsControl: true })
    const lock = uniqueName()
    const before = await currentPrimary(service)
    const { promoted } = await promotionOf(service)
    await redisCommand(service.server('sentinel-1'), 'SENTINEL', 'FAILOVER', sentinelPrimaryName)
    await promoted
    const locks = createLocks(factory({ connection: connectionTo(service), waitForReplicas }))
    onTestFinished(() => locks.close())
    const answer = await locks
      .lock(lock)
      .tryAcquire({ ttlMs: 10_000, retry: { attempts: 1 } })
      .catch((error: unknown) => error)
    const { port } = await currentPrimary(service)
    await until(async () => (await currentPrimary(service)).port !== before.port)
    if (port === before.port)
      return { service, lock, answer, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() }
    await service.close()
  }
  throw new Error(`each of ${MOST_FAILOVERS} failovers was over before the client had connected`)
}

test('a client that connects while a replica is promoted gets nothing from the old primary', async () => {
  await using met = await meetFailover(redis)
  expect(met.answer).toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  const locks = connect({ connection: connectionTo(met.service) }, { storeTimeoutMs: 20_000 })
  await locks.with(met.lock, (lease) => lease.assertHeld())
})

test('caught: the Sentinels are not asked about a new connection', async () => {
  const edit = { file: 'redis/failovers.js', find: 'if (trusted.length === 0)', replace: 'if (true)' }
  // Replicas leave the old primary at about this time, so a grant that waits for one may fail all the same.
  await using met = await meetFailover(await mutate([edit]), 0)
  expect(met.answer).toMatchObject({ state: 'held' })
})

/** Resolves with the announcement of the next promotion, once it is subscribed to. */
async function promotionOf(service: Service): Promise<{ readonly promoted: Promise<void> }> {
  const { host, port } = service.server('sentinel-1')
  const listener = new Redis({ host, port, enableReadyCheck: false })
  listener.on('error', () => undefined)
  onTestFinished(() => listener.disconnect())
  const promoted = new Promise<void>((resolve) => listener.on('message', () => resolve()))
  await listener.subscribe('+failover-state-send-slaveof-noone')
  return { promoted }
}

test("nor where the user's client stays on the old primary", async () => {
  await using service = await startService('redis-sentinel', { needsControl: true })
  const connection = connectionTo(service)
  const client = new Redis(connection)
  client.on('error', () => undefined)
  onTestFinished(() => client.disconnect())
  expect(level(await connect({ client }).diagnose())).toBe('warning')
  expect(level(await connect({ connection }).diagnose())).toBe('ok')
  expect(await overlapMs(service, { connection }, { client })).toBe(0)
})

function level(findings: readonly Finding[]): string | undefined {
  return findings.find(({ check }) => check === 'failover-detection')?.level
}
