import { isLockError } from '@locks/core'
import { redisGuard } from '@locks/redis'
import type { RedisOptions } from '@locks/redis'
import { Redis } from 'ioredis'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { Connection } from '../src/connection.ts'
import { scriptsOf } from '../src/queue-scripts.ts'
import { renew } from '../src/scripts.ts'
import { at, bare, exists, uniqueName } from './support/bed.ts'
import { outcome, shifts, startShiftingProxy } from '../../../conformance/test-support/shifting-proxy.ts'
import type { ShiftingProxy } from '../../../conformance/test-support/shifting-proxy.ts'

// Redis pairs replies with commands by order. Where one is lost or one too many, no command may take the reply of
// another for its own: what it did is unknown, and never a grant, a refusal, a loss, a renewal or a release.

const service = await startService('redis')
afterAll(() => service.close())
const server = service.server('redis')
const { acquire, release } = scriptsOf(false, 0)

const clients: readonly (readonly [string, (proxy: ShiftingProxy) => RedisOptions])[] = [
  ['an own client', (proxy) => at(proxy)],
  [
    "the user's client",
    ({ host, port }) => {
      const client = new Redis({ host, port })
      client.on('error', () => undefined)
      onTestFinished(() => client.disconnect())
      return { client, prefix: '' }
    },
  ],
]

describe.each(clients)('%s', (_whose, optionsFor) => {
  test.each(shifts)(
    'a reply to an attempt is %s: neither a grant nor a refusal is made up',
    async (_, shift) => {
      const proxy = await startShiftingProxy(server)
      const { adapter, request, take } = bare(optionsFor(proxy))
      const holder = bare(at(server))
      const [held, free1, free2] = [uniqueName('held'), uniqueName('free'), uniqueName('free')]
      await holder.take(holder.request(held))
      await take(request(uniqueName()))
      const shifted = proxy.shift(shift, acquire.sha)
      const tries = [free1, held, free2, held].map((name) => outcome(adapter.attempt(request(name))))
      await shifted
      const outcomes = await Promise.all(tries)
      for (const index of [1, 3])
        if (outcomes[index] !== 'unavailable') expect(outcomes[index]).toMatchObject({ busy: true })
      for (const index of [0, 2])
        if (outcomes[index] !== 'unavailable') expect(outcomes[index]).not.toHaveProperty('busy')
      expect(outcomes).toContain('unavailable')
      // The next connection is sound.
      await take(request(uniqueName()))
      expect(await adapter.attempt(request(held))).toMatchObject({ busy: true })
    },
  )

  test.each(shifts)('a reply to a renewal or a release is %s: no lock is lost by it', async (_, shift) => {
    const proxy = await startShiftingProxy(server)
    const { adapter, request, take } = bare(optionsFor(proxy))
    const [lasting, ended, given] = [
      await take(request(uniqueName())),
      request(uniqueName()),
      request(uniqueName()),
    ]
    const [gone, mine] = [await take(ended), await take(given)]
    // The scripts are known to the server from here on.
    await adapter.renew([{ grant: lasting, ttlMs: 20_000, lockDelayMs: 0 }])
    await adapter.release(await take(request(uniqueName())))
    await redisCommand(server, 'DEL', gone.name)
    const shifted = proxy.shift(shift, renew.sha)
    const [alive, dead, released] = [
      outcome(adapter.renew([{ grant: lasting, ttlMs: 20_000, lockDelayMs: 0 }])),
      outcome(adapter.renew([{ grant: gone, ttlMs: 20_000, lockDelayMs: 0 }])),
      outcome(adapter.release(mine)),
    ]
    await shifted
    expect([['renewed'], 'unavailable']).toContainEqual(await alive)
    expect([['lost'], 'unavailable']).toContainEqual(await dead)
    expect(['released', 'unavailable']).toContain(await released)
    expect(await adapter.renew([{ grant: lasting, ttlMs: 20_000, lockDelayMs: 0 }])).toEqual(['renewed'])
  })

  test.each(shifts)(
    'a reply to a release is %s: a release is reported only for what was released',
    async (_, shift) => {
      const proxy = await startShiftingProxy(server)
      const { adapter, request, take } = bare(optionsFor(proxy))
      const [one, other] = [await take(request(uniqueName())), await take(request(uniqueName()))]
      await adapter.release(await take(request(uniqueName())))
      const shifted = proxy.shift(shift, release.sha)
      const releases = [one, other].map(async (grant) => {
        const said = await outcome(adapter.release(grant))
        if (said === 'released') expect(await exists(server, grant.name)).toBe(false)
        return said
      })
      await shifted
      for (const said of await Promise.all(releases)) expect(['released', 'unavailable']).toContain(said)
    },
  )
})

test.each(shifts)('a guard whose reply is %s lets nothing through by mistake', async (_, shift) => {
  const proxy = await startShiftingProxy(server)
  const client = new Redis({ host: proxy.host, port: proxy.port })
  client.on('error', () => undefined)
  onTestFinished(() => client.disconnect())
  const [strict, lax] = [redisGuard(client, uniqueName('guard')), redisGuard(client, uniqueName('guard'))]
  await strict.register(9n)
  await lax.register(1n)
  const shifted = proxy.shift(shift, 'evalsha')
  const [fresh, stale] = [lax.register(2n), strict.register(8n)].map((call) =>
    call.then(
      () => 'let through',
      (error: unknown) => (isLockError(error) ? error.code : error),
    ),
  )
  await shifted
  expect(['let through', 'LOCK_UNAVAILABLE']).toContain(await fresh)
  expect(['LOCK_LOST', 'LOCK_UNAVAILABLE']).toContain(await stale)
})

test('a number in front of the reply to WAIT is not taken for replicas', async () => {
  const proxy = await startShiftingProxy(server)
  const { adapter, request } = bare({ ...at(proxy), waitForReplicas: 1, waitForReplicasMs: 50 })
  await expect(adapter.attempt(request(uniqueName()))).rejects.toThrow(/0 of 1 replicas/)
  const wanted = request(uniqueName())
  const shifted = proxy.shift({ insert: ':1\r\n' }, '$4\r\nwait\r\n')
  const attempt = adapter.attempt(wanted)
  await expect(attempt).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  await expect(attempt).rejects.toThrow(/a reply belongs to another command/)
  await shifted
})

test('a reply is not taken if its connection ended before it was checked', async () => {
  const proxy = await startShiftingProxy(server)
  const { host, port } = proxy
  const connection = new Connection({ connection: { host, port }, prefix: '' })
  onTestFinished(() => connection.close())
  const key = uniqueName()
  await connection.ask(key, 'set', key, 'value')
  const shifted = proxy.shift({ insert: '$7\r\ninvalid\r\n', cut: true }, '$3\r\nget\r\n')
  const asked = expect(connection.ask(key, 'get', key)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  await shifted
  await asked
  expect(await connection.ask(key, 'get', key)).toBe('value')
})
