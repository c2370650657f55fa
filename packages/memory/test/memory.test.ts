import { createLocks, openLocks } from '@locks/core'
import { loadAdapter } from '@locks/core/adapter'
import type { Lease, Locks } from '@locks/core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { fromConfig, memory } from '../src/index.ts'
import type { MemoryCapabilities } from '../src/index.ts'

function codeOf(fn: () => unknown): unknown {
  try {
    fn()
  } catch (error) {
    return typeof error === 'object' && error !== null && 'code' in error ? error.code : error
  }
  return undefined
}

describe('a memory() value', () => {
  test('is one store: clients made from it exclude each other', async () => {
    const factory = memory()
    const [one, two] = [createLocks(factory), createLocks(factory)]
    const lease = await one.lock('a').acquire()
    expect(await two.lock('a').tryAcquire()).toBeNull()
    await lease.release()
    expect((await two.lock('a').tryAcquire())?.fence).toBeGreaterThan(lease.fence)
  })

  test('is a store of its own: another one does not share its locks', async () => {
    await createLocks(memory()).lock('a').acquire()
    expect(await createLocks(memory()).lock('a').tryAcquire()).not.toBeNull()
  })

  test('keeps what another client holds when one closes', async () => {
    const factory = memory()
    const [one, two] = [createLocks(factory), createLocks(factory)]
    const lease = await one.lock('a').acquire()
    await two.close()
    expect(lease.state).toBe('held')
    expect((await one.inspect('a')).holder?.owner).toBe(lease.owner)
  })

  test('has hand-over and lock-delay, in its types too', async () => {
    const locks: Locks<MemoryCapabilities> = createLocks(memory())
    const lease: Lease<MemoryCapabilities> = await locks.lock('a').acquire({ lockDelayMs: 10 })
    const resumed = await locks.resume(lease.serialize())
    expect(resumed.fence).toBe(lease.fence)
  })
})

describe('waiters of several clients', () => {
  test('are served first come first served, without a poll', async () => {
    const factory = memory()
    const clients = Array.from({ length: 20 }, () => createLocks(factory))
    const holder = createLocks(factory)
    const held = await holder.lock('a').acquire()
    const order: number[] = []
    const tasks = clients.map((client, i) =>
      client.with('a', () => {
        order.push(i)
      }),
    )
    expect((await holder.inspect('a')).waiters).toBe(20)
    await held.release()
    await Promise.all(tasks)
    expect(order).toEqual(clients.map((_, i) => i))
  })

  test('are skipped after they give up', async () => {
    const factory = memory()
    const [one, two, three] = [createLocks(factory), createLocks(factory), createLocks(factory)]
    const held = await one.lock('a').acquire()
    const controller = new AbortController()
    const gone = two.lock('a').acquire({ signal: controller.signal })
    const patient = three.lock('a').acquire()
    controller.abort(new Error('gone'))
    await expect(gone).rejects.toThrow('gone')
    await held.release()
    expect((await patient).state).toBe('held')
    expect((await one.inspect('a')).waiters).toBe(0)
  })

  test('are not overtaken by a try in between', async () => {
    const factory = memory()
    const [one, two, three] = [createLocks(factory), createLocks(factory), createLocks(factory)]
    const held = await one.lock('a').acquire()
    const waiting = two.lock('a').acquire()
    expect(await three.lock('a').tryAcquire()).toBeNull()
    const released = held.release()
    expect(await three.lock('a').tryAcquire()).toBeNull()
    await released
    expect((await waiting).state).toBe('held')
  })
})

describe('a config', () => {
  test.each(['memory:', 'memory:orders', 'memory:a.b-c_d'])(
    '%s means one store throughout the process',
    async (url) => {
      const [one, two] = [createLocks(fromConfig({ url })), createLocks(fromConfig({ url }))]
      const lease = await one.lock('a').acquire()
      expect(await two.lock('a').tryAcquire()).toBeNull()
      await lease.release()
    },
  )

  test('without a url is memory:, and each name is another store', async () => {
    const lease = await createLocks(fromConfig({})).lock('b').acquire()
    expect(
      await createLocks(fromConfig({ url: 'memory:' }))
        .lock('b')
        .tryAcquire(),
    ).toBeNull()
    expect(
      await createLocks(fromConfig({ url: 'memory:else' }))
        .lock('b')
        .tryAcquire(),
    ).not.toBeNull()
    await lease.release()
  })

  test.each([
    { url: 5 },
    { url: 'memory://host' },
    { url: 'memory:a b' },
    { url: 'redis:' },
    { uri: 'memory:' },
    { url: null },
  ])('%j is refused', (options) => {
    expect(codeOf(() => fromConfig(options))).toBe('LOCK_INVALID_ARGUMENT')
  })

  test('retry in code overrides retry in the config, key by key', async () => {
    const retry = { attempts: 1 }
    const config = { adapter: '@locks/memory', url: 'memory:retry', defaults: { retry } } as const
    const notGiven: object = { delayMs: 1, attempts: undefined }
    const [one, two] = [
      await openLocks(config),
      await openLocks(config, { waitMs: 3_600_000, retry: notGiven }),
    ]
    const lease = await one.lock('a').acquire()
    await expect(two.lock('a').acquire()).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' })
    await lease.release()
  })

  test('can be loaded by its path', async () => {
    const path = new URL('../dist/index.js', import.meta.url).href
    const factory = await loadAdapter({ adapter: path, url: 'memory:by-path' })
    await createLocks(factory).with('a', ({ fence }) => expect(fence).toBe(1n))
  })
})

test('minHoldMs can be a default in a config, written as a duration', async () => {
  const locks = await openLocks({ adapter: '@locks/memory', defaults: { minHoldMs: '1h' } })
  onTestFinished(() => locks.close())
  await locks.with('kept for an hour', () => undefined)
  const { held, remainingMs } = await locks.inspect('kept for an hour')
  expect(held).toBe(true)
  expect(remainingMs).toBeGreaterThan(3_000_000)
  await (await locks.lock('b').acquire({ minHoldMs: 0 })).release()
  expect((await locks.inspect('b')).held).toBe(false)
})

test('events name the adapter, and the store of a config', async () => {
  const config = { stores: { main: 'memory:', audit: 'memory:audit' }, default: 'main' }
  for (const store of ['main', 'audit']) {
    await using locks = await openLocks(config, store === 'main' ? {} : { store })
    const seen: unknown[] = []
    locks.on('acquire', (end) => seen.push(end))
    await locks.with('a', () => undefined)
    expect(seen).toMatchObject([{ outcome: 'acquired', store, adapter: '@locks/memory' }])
  }
  await using plain = await openLocks('memory:')
  plain.on('acquire', (end) => expect(Object.keys(end)).not.toContain('store'))
  await plain.with('a', () => undefined)
})
