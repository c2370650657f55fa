import { isLockError } from '@locks/core'
import type { PushedGrant } from '@locks/core/adapter'
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

interface Met {
  /** What the waiter's wait resolves with. */
  readonly pushed: PushedGrant | undefined
  /** What its next attempt comes to. */
  readonly next: unknown
}

/** A waiter is paused while a failover begins and the lock is released to it on the old primary. */
async function pausedAcrossPromotion(factory: Factory): Promise<Met> {
  await using service = await startService('redis-sentinel', { needsControl: true })
  const addresses = service.servers.filter(({ name }) => name.startsWith('sentinel'))
  const sentinels = addresses.map(({ host, port }) => ({ host, port }))
  const [sentinel] = sentinels
  const connection = { sentinels, name: sentinelPrimaryName }
  const primary = await currentPrimary(service)
  const lock = uniqueName()
  const holder = bare({ connection: primary, prefix: '' })
  const { name, attemptId } = await holder.take(holder.request(lock))
  const { adapter: waiter, wanted } = await enqueue({ connection, prefix: '' }, lock, factory)
  const turn = waiter.wait?.(wanted, 60_000, new AbortController().signal)
  const [client = ''] = wanted.attemptId.split(':')
  const ports = [primary, sentinel].map((server) => String(server?.port))
  const args = [fixture, ...ports, sentinelPrimaryName, `locks_grants:${client}`, name, attemptId]
  // Nothing else runs in this process meanwhile.
  const released = execFileSync(process.execPath, args, { encoding: 'utf8' })
  expect(released).toBe('released')
  const pushed = await turn
  const next: unknown = await waiter.attempt(wanted).catch((error: unknown) => error)
  return { pushed, next }
}

test('a waiter that was paused across a promotion takes no grant of the old primary', async () => {
  const { pushed, next } = await pausedAcrossPromotion(redis)
  expect(pushed).toBeUndefined()
  expect(isLockError(next, 'LOCK_UNAVAILABLE')).toBe(true)
})

test('caught: a pushed grant counts behind Sentinels', async () => {
  const edit = {
    file: 'redis/adapter.js',
    find: 'connection.replaceable ? undefined',
    replace: 'false ? undefined',
  }
  expect((await pausedAcrossPromotion(await mutate([edit]))).pushed).toBeDefined()
})
