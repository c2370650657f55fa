import { isLockError } from '@locks/core'
import type { Finding, Lease, Locks } from '@locks/core'
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

/** Tries until it has the lock, or it is over. Answers when it got it. */
async function grantedAt(locks: Locks, name: string, over: AbortSignal): Promise<number | undefined> {
  while (!over.aborted) {
    const lease = await locks
      .lock(name)
      .tryAcquire({ ttlMs: TTL_MS })
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
  const granted = grantedAt(connect(options, patient), name, over.signal)
  await pause(5_000)
  over.abort()
  const [heldUntil, from] = await Promise.all([held, granted])
  if (from === undefined) expect(lease.state).toBe('held')
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
  { timeout: 90_000 },
  async (count, waitForReplicas) => {
    await using service = await startService('redis-sentinel', { count, needsControl: true })
    const options = { connection: connectionTo(service), waitForReplicas }
    expect(await overlapMs(service, options)).toBe(0)
  },
)

test("nor where the user's client stays on the old primary", { timeout: 90_000 }, async () => {
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
