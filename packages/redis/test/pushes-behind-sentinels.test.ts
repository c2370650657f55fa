import { redis } from '@locks/redis'
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { currentPrimary, sentinelPrimaryName, startService } from '../../../conformance/services/index.ts'
import { bare, enqueue, uniqueName } from './support/bed.ts'
import { mutate } from './support/mutate.ts'
import type { Factory } from './support/mutate.ts'

// Behind Sentinels a pushed grant may come from a primary that is being replaced, where it is worth nothing.

const fixture = fileURLToPath(new URL('support/release-on-old-primary.fixture.mjs', import.meta.url))

/** What a waiter gets that is paused while a failover begins and the lock is released to it on the old primary. */
async function pausedAcrossPromotion(factory: Factory): Promise<unknown> {
  await using service = await startService('redis-sentinel', { needsControl: true })
  const addresses = service.servers.filter(({ name }) => name.startsWith('sentinel'))
  const sentinels = addresses.map(({ host, port }) => ({ host, port }))
  const [sentinel] = sentinels
  const connection = { sentinels, name: sentinelPrimaryName }
  const primary = await currentPrimary(service)
  const lock = uniqueName()
  const holder = bare({ connection: primary, prefix: '' })
  const { name, attemptId } = await holder.take(holder.request(lock, { ttlMs: 600_000 }))
  // So long that the grant has not ended when it is read.
  const options = { connection, prefix: '', claimTtlMs: 60_000 }
  const { adapter: waiter, wanted } = await enqueue(options, lock, factory)
  const turn = waiter.wait?.(wanted, 600_000, new AbortController().signal)
  const [client = ''] = wanted.attemptId.split(':')
  const ports = [primary, sentinel].map((server) => String(server?.port))
  const args = [fixture, ...ports, sentinelPrimaryName, `locks_grants:${client}`, name, attemptId]
  // Nothing else runs in this process meanwhile.
  const released = execFileSync(process.execPath, args, { encoding: 'utf8' })
  expect(released).toBe('released')
  const outcome: unknown = await turn?.catch((error: unknown) => error)
  return outcome
}

test('a waiter that was paused across a promotion takes no grant of the old primary', async () => {
  expect(await pausedAcrossPromotion(redis)).toMatchObject({ code: 'LOCK_UNAVAILABLE' })
})

test('caught: a pushed grant counts behind Sentinels', async () => {
  const edit = { file: 'redis/adapter.js', find: 'connection.replaceable ?', replace: 'false ?' }
  expect(await pausedAcrossPromotion(await mutate([edit]))).toHaveProperty('fence')
})
