import { redisStore, tairStore } from '@locks/cas'
import type { VersionedStore } from '@locks/cas'
import { Redis } from 'ioredis'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { isSelected } from '../../../conformance/selection.ts'
import { startService } from '../../../conformance/services/index.ts'
import type { Server, Service } from '../../../conformance/services/index.ts'
import { outcome, shifts, startShiftingProxy } from '../../../conformance/test-support/shifting-proxy.ts'
import { until } from '../../../conformance/test-support/until.ts'
import { startTairStub } from './support/tair-stub.ts'

// Where a reply is lost or one too many, no command may take the reply of another for its own.

function closing(store: VersionedStore): VersionedStore {
  onTestFinished(() => store.close())
  return store
}

/** The store behind the proxy, and the same without it. */
interface Stores {
  readonly shifted: VersionedStore
  readonly plain: VersionedStore
}

/** Two reads and two writes at once, of which the first reply is out of step. */
async function check({ shifted, plain }: Stores, out: () => Promise<void>): Promise<void> {
  const keys = Array.from({ length: 4 }, () => randomUUID())
  const [one = '', two = '', fresh = '', taken = ''] = keys
  for (const key of [one, two, taken]) await plain.put(key, `value of ${key}`, undefined, true)
  // Connected, and the scripts are known.
  await shifted.get(one)
  await shifted.put(randomUUID(), 'warm', undefined, true)
  const done = out()
  const reads = [one, two].map((key) => outcome(shifted.get(key)))
  const writes = [fresh, taken].map((key) => outcome(shifted.put(key, 'new', undefined, true)))
  await done
  const [first, second] = await Promise.all(reads)
  if (first !== 'unavailable') expect(first?.value).toBe(`value of ${one}`)
  if (second !== 'unavailable') expect(second?.value).toBe(`value of ${two}`)
  const [made, refused] = await Promise.all(writes)
  // Sent again on the next connection it may find its own value there.
  if (typeof made === 'object' && 'conflict' in made) expect(made.current?.value).toBe('new')
  if (refused !== 'unavailable') expect(refused).toHaveProperty('conflict')
  expect([first, second, made, refused]).toContain('unavailable')
  // A call during which the connection breaks, or is made again, is unavailable.
  const next = await until(async () => {
    const read = await outcome(shifted.get(one))
    return read !== 'unavailable' && { read }
  })
  expect(next.read).toEqual(await plain.get(one))
}

if (isSelected('cas-redis'))
  describe('the redis store', () => {
    let service: Service
    let server: Server
    beforeAll(async () => {
      service = await startService('redis')
      server = service.server('redis')
    })
    afterAll(() => service.close())

    test.each(shifts)('a reply is %s: an own client', async (_, shift) => {
      const proxy = await startShiftingProxy(server)
      const shifted = closing(redisStore({ url: `redis://127.0.0.1:${proxy.port}` })())
      const plain = closing(redisStore({ url: service.url })())
      await check({ shifted, plain }, () => proxy.shift(shift, 'evalsha'))
    })

    test.each(shifts)("a reply is %s: the user's client", async (_, shift) => {
      const proxy = await startShiftingProxy(server)
      const client = new Redis({ host: proxy.host, port: proxy.port })
      client.on('error', () => undefined)
      onTestFinished(() => client.disconnect())
      const shifted = closing(redisStore({ client })())
      const plain = closing(redisStore({ url: service.url })())
      await check({ shifted, plain }, () => proxy.shift(shift, 'evalsha'))
    })
  })

test.each(shifts)('the tair store: a reply is %s', async (_, shift) => {
  const stub = await startTairStub()
  onTestFinished(() => stub.close())
  const proxy = await startShiftingProxy({ host: '127.0.0.1', port: Number(new URL(stub.url).port) })
  const shifted = closing(tairStore({ url: `redis://127.0.0.1:${proxy.port}` })())
  const plain = closing(tairStore({ url: stub.url })())
  await check({ shifted, plain }, () => proxy.shift(shift, 'EXGET'))
})
