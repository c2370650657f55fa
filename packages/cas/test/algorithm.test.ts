import { createLocks } from '@locks/core'
import { cas, memoryStore } from '@locks/cas'
import type { Put, StoreFactory, Versioned, VersionedStore } from '@locks/cas'
import { describe, expect, test } from 'vitest'
import { openClient } from '../../../conformance/test-support/clients.ts'
import { HandClock } from '../../../conformance/test-support/hand-clock.ts'
import { bare, isBusy, troubled } from './support/bed.ts'

/** Versions that start at 1 again, as a store does which knows no better, and a way to delete. */
function forgetful(): { readonly open: StoreFactory; readonly drop: () => void } {
  const records = new Map<string, Versioned>()
  const store: VersionedStore = {
    scope: 'process',
    fencing: 'durable',
    get: async (key) => records.get(key),
    async put(key, value, expected): Promise<Put> {
      const current = records.get(key)
      if (current?.version !== expected) return { conflict: true, current }
      const version = (current?.version ?? 0n) + 1n
      records.set(key, { value, version })
      return { version }
    },
    close: async () => undefined,
  }
  return { open: () => store, drop: () => records.clear() }
}

describe('taking over', () => {
  test('needs the record to stand still for its own length, on the clock of the observer', async () => {
    const [store, clock] = [memoryStore(), new HandClock()]
    const [holder, other] = [bare(store, new HandClock()), bare(store, clock)]
    const { fence } = await holder.take(holder.request({ ttlMs: 300 }))
    // However long ago it was written: the first look is where the watch begins.
    clock.move(10_000)
    const wanted = other.request({ ttlMs: 50 })
    expect(await isBusy(other, wanted)).toBe(true)
    clock.move(299)
    expect(await isBusy(other, wanted)).toBe(true)
    clock.move(1)
    expect((await other.take(wanted)).fence).toBeGreaterThan(fence)
  })

  test('starts its watch again whenever the version moved', async () => {
    const [store, clock] = [memoryStore(), new HandClock()]
    const [holder, other] = [bare(store, new HandClock()), bare(store, clock)]
    const grant = await holder.take(holder.request())
    const wanted = other.request()
    for (let beat = 0; beat < 5; beat += 1) {
      expect(await isBusy(other, wanted)).toBe(true)
      clock.move(99)
      expect(await holder.adapter.renew([{ grant, ttlMs: 100, lockDelayMs: 0 }])).toEqual(['renewed'])
    }
    expect(await isBusy(other, wanted)).toBe(true)
    clock.move(100)
    await other.take(wanted)
  })

  test('is possible for a client that never waits: what was seen outlives the call', async () => {
    const [store, clock] = [memoryStore(), new HandClock()]
    const holder = bare(store, new HandClock())
    await holder.take(holder.request())
    const locks = createLocks(cas(store), { clock, ttlMs: 100 })
    const lock = locks.lock('order')
    expect(await lock.tryAcquire()).toBeNull()
    clock.move(60)
    expect(await lock.tryAcquire()).toBeNull()
    clock.move(40)
    expect(await lock.tryAcquire()).not.toBeNull()
  })

  test('is decided by the version: one of many clients that saw the same dead holder gets it', async () => {
    const [store, clock] = [memoryStore(), new HandClock()]
    const holder = bare(store, new HandClock())
    await holder.take(holder.request())
    const heirs = Array.from({ length: 8 }, () => bare(store, clock))
    const wanted = heirs.map((heir) => ({ heir, request: heir.request() }))
    for (const { heir, request } of wanted) expect(await isBusy(heir, request)).toBe(true)
    clock.move(100)
    const answers = await Promise.all(wanted.map(({ heir, request }) => heir.adapter.attempt(request)))
    expect(answers.filter((answer) => 'fence' in answer)).toHaveLength(1)
  })

  test('a writer that pauses between its read and its put takes nothing (fault E)', async () => {
    const [store, clock] = [memoryStore(), new HandClock()]
    const holder = bare(store, new HandClock())
    const grant = await holder.take(holder.request())
    const slow: StoreFactory = () => {
      const inner = store()
      return {
        ...inner,
        put: async (...args) => {
          // While it was paused the holder came back to life.
          await holder.adapter.renew([{ grant, ttlMs: 100, lockDelayMs: 0 }])
          return inner.put(...args)
        },
      }
    }
    const paused = bare(slow, clock)
    const wanted = paused.request()
    await isBusy(paused, wanted)
    clock.move(100)
    expect(await isBusy(paused, wanted)).toBe(true)
  })

  test('waits for the lock delay on top, and a release ends both', async () => {
    const [store, clock] = [memoryStore(), new HandClock()]
    const [holder, other] = [bare(store, clock), bare(store, clock)]
    const grant = await holder.take(holder.request({ lockDelayMs: 50 }))
    const wanted = other.request()
    expect(await isBusy(other, wanted)).toBe(true)
    clock.move(149)
    expect(await isBusy(other, wanted)).toBe(true)
    expect(await holder.adapter.renew([{ grant, ttlMs: 100, lockDelayMs: 50 }])).toEqual(['lost'])
    expect(await holder.adapter.release(grant)).toBe('released')
    await other.take(wanted)
  })
})

describe('a key deleted and made again', () => {
  test('is another record although its version is the same: the watch starts again', async () => {
    const [{ open, drop }, clock] = [forgetful(), new HandClock()]
    const [first, second, other] = [
      bare(open, new HandClock()),
      bare(open, new HandClock()),
      bare(open, clock),
    ]
    const one = await first.take(first.request())
    const wanted = other.request()
    await isBusy(other, wanted)
    clock.move(90)
    drop()
    const two = await second.take(second.request())
    expect(two.fence).toBe(one.fence)
    clock.move(90)
    expect(await isBusy(other, wanted)).toBe(true)
    clock.move(100)
    await other.take(wanted)
  })

  test('is lost to its old holder, which cannot touch the new one', async () => {
    const [{ open, drop }, clock] = [forgetful(), new HandClock()]
    const [first, second] = [bare(open, clock), bare(open, clock)]
    const stale = await first.take(first.request())
    await first.adapter.renew([{ grant: stale, ttlMs: 100, lockDelayMs: 0 }])
    drop()
    expect(await first.adapter.renew([{ grant: stale, ttlMs: 100, lockDelayMs: 0 }])).toEqual(['lost'])
    const held = await second.take(second.request())
    expect(await first.adapter.release(stale)).toBe('not-held')
    expect((await first.adapter.inspect('order')).holder?.fence).toBe(held.fence)
  })
})

describe('what the store is asked, counted', () => {
  test('an uncontended cycle is at most 3 operations, and 2 on a warm cache', async () => {
    const { open, asked } = troubled(memoryStore())
    const cycle = async (name: string): Promise<number> => {
      const before = asked.get + asked.put
      const client = bare(open)
      await client.adapter.release(await client.take(client.request({ name })))
      return asked.get + asked.put - before
    }
    expect(await cycle('new')).toBe(2)
    // Another client, that has never seen it.
    expect(await cycle('new')).toBe(3)
    const locks = openClient(cas(open))
    await locks.with('warm', () => undefined)
    const before = asked.get + asked.put
    for (let n = 0; n < 100; n += 1) await locks.with('warm', () => undefined)
    expect(asked.get + asked.put - before).toBe(200)
  })

  test('a heartbeat is one operation, a refused try is one, and giving up a wait costs none', async () => {
    const { open, asked } = troubled(memoryStore())
    const [holder, other] = [bare(open), bare(open)]
    const grant = await holder.take(holder.request())
    const count = async (work: () => Promise<unknown>): Promise<number> => {
      const before = asked.get + asked.put
      await work()
      return asked.get + asked.put - before
    }
    expect(await count(() => holder.adapter.renew([{ grant, ttlMs: 100, lockDelayMs: 0 }]))).toBe(1)
    const waiting = other.request({ willWait: true })
    expect(await count(() => other.adapter.attempt(waiting))).toBe(1)
    expect(await count(async () => other.adapter.withdraw?.(waiting))).toBe(0)
  })
})

test('an unreadable record is not taken over at once, but after a while', async () => {
  const [store, clock] = [memoryStore(), new HandClock()]
  const client = bare(store, clock)
  await store().put('order', '{"name":"order","attemptId":"x', undefined, true)
  const wanted = client.request()
  expect(await client.adapter.attempt(wanted)).toMatchObject({ busy: true })
  clock.move(59_999)
  expect(await isBusy(client, wanted)).toBe(true)
  clock.move(1)
  await client.take(wanted)
})
