import type { AcquireRequest, Adapter } from '@locks/core/adapter'
import { describe, expect, test } from 'vitest'
import { HandClock } from '../../../conformance/test-support/hand-clock.ts'
import { memoryAdapter } from '../src/adapter.ts'
import type { MemoryCapabilities, MemoryStore } from '../src/adapter.ts'

function setUp(): { clock: HandClock; store: MemoryStore; adapter: Adapter<MemoryCapabilities> } {
  const clock = new HandClock()
  const store: MemoryStore = { entries: new Map(), lastFence: 0n, sweepAt: 0 }
  return { clock, store, adapter: memoryAdapter(store, { clientId: 'c', clock, report: () => undefined }) }
}

function request(attemptId: string, more: Partial<AcquireRequest> = {}): AcquireRequest {
  const metadata = { host: 'h', pid: 1 }
  const rest = {
    owner: attemptId,
    mode: 'exclusive',
    ttlMs: 100,
    lockDelayMs: 0,
    willWait: true,
    metadata,
  } as const
  return { name: 'a', attemptId, ...rest, ...more }
}

describe('the store', () => {
  test('forgets a name that is free, however it came to be free', async () => {
    const { clock, store, adapter } = setUp()
    const grant = await adapter.attempt(request('1'))
    expect(grant).toMatchObject({ fence: 1n })
    await adapter.release({ name: 'a', attemptId: '1', fence: 1n, ttlMs: 100 })
    expect(store.entries.size).toBe(0)
    await adapter.attempt(request('2'))
    await adapter.attempt(request('3'))
    await adapter.withdraw?.(request('3'))
    await adapter.withdraw?.(request('2'))
    expect(store.entries.size).toBe(0)
    await adapter.inspect('never seen')
    await adapter.withdraw?.(request('never seen'))
    expect(store.entries.size).toBe(0)
    clock.move(1_000)
    expect(await adapter.attempt(request('4'))).toMatchObject({ fence: 3n })
  })

  test('forgets expired names, with or without a lock-delay', async () => {
    const { clock, store, adapter } = setUp()
    for (let n = 0; n < 10_000; n += 1) {
      await adapter.attempt(request(`${n}`, { name: `name ${n}`, lockDelayMs: n % 2 === 0 ? 0 : 50 }))
      clock.move(1)
    }
    // 150 of them hold or block at a time.
    expect(store.entries.size).toBeLessThan(500)
    expect(await adapter.inspect('name 9999')).toMatchObject({ held: true })
    expect(await adapter.inspect('name 9901')).toMatchObject({ held: true })
  })

  test('is idempotent per attempt: same fence, fresh ttl', async () => {
    const { clock, adapter } = setUp()
    const first = await adapter.attempt(request('1'))
    clock.move(60)
    expect(await adapter.attempt(request('1'))).toEqual(first)
    clock.move(60)
    expect(await adapter.attempt(request('2'))).toMatchObject({ busy: true, retryInMs: 40 })
  })

  test('grants a free name to its queue before any newcomer, and dates the grant by when it was made', async () => {
    const { clock, adapter } = setUp()
    await adapter.attempt(request('1'))
    await adapter.attempt(request('2'))
    const pushed = adapter.wait?.(request('2'), 1_000, new AbortController().signal)
    clock.move(30)
    await adapter.release({ name: 'a', attemptId: '1', fence: 1n, ttlMs: 100 })
    expect(await adapter.attempt(request('3', { willWait: false }))).toMatchObject({ busy: true })
    clock.move(20)
    expect(await pushed).toMatchObject({ attemptId: '2', fence: 2n, grantedAt: 1_030 })
    expect(clock.timers.size).toBe(0)
  })

  test('serves the queue of an expired holder at the next call', async () => {
    const { clock, adapter } = setUp()
    await adapter.attempt(request('1'))
    await adapter.attempt(request('2'))
    clock.move(100)
    expect(await adapter.attempt(request('3'))).toMatchObject({ busy: true, holder: { owner: '2' } })
    expect(await adapter.release({ name: 'a', attemptId: '1', fence: 1n, ttlMs: 100 })).toBe('not-held')
    expect(await adapter.inspect('a')).toMatchObject({ held: true, holder: { owner: '2' }, waiters: 1 })
  })

  test.each([
    ['while it waits', true],
    ['before it waits', false],
  ])('the next waiter does not sleep past the end of a holder that was granted %s', async (_, waits) => {
    const { clock, adapter } = setUp()
    const wait = async (): Promise<unknown> =>
      adapter.wait?.(request('3'), 30_000, new AbortController().signal)
    const grant = await adapter.attempt(request('1', { ttlMs: 30_000 }))
    await adapter.attempt(request('2', { lockDelayMs: 50 }))
    expect(await adapter.attempt(request('3'))).toMatchObject({ retryInMs: 30_000 })
    const early = waits ? wait() : undefined
    if ('fence' in grant) await adapter.release(grant)
    const woken = early ?? wait()
    clock.move(149)
    expect(clock.timers.size).toBe(1)
    clock.move(1)
    expect(await woken).toBeUndefined()
    expect(await adapter.attempt(request('3'))).toMatchObject({ fence: 3n })
  })

  test('a waiter that becomes the next because others withdraw does not sleep past the holder either', async () => {
    const { clock, adapter } = setUp()
    const grant = await adapter.attempt(request('1', { ttlMs: 30_000 }))
    for (const id of ['2', '3', '4']) await adapter.attempt(request(id))
    const woken = adapter.wait?.(request('4'), 30_000, new AbortController().signal)
    if ('fence' in grant) await adapter.release(grant)
    await adapter.withdraw?.(request('3'))
    clock.move(100)
    expect(await woken).toBeUndefined()
    expect(await adapter.attempt(request('4'))).toMatchObject({ fence: 3n })
  })

  test('does not renew, adopt or revive what is over', async () => {
    const { clock, adapter } = setUp()
    const grant = { name: 'a', attemptId: '1', fence: 1n, ttlMs: 100 }
    await adapter.attempt(request('1'))
    clock.move(100)
    expect(await adapter.renew([{ grant, ttlMs: 100, lockDelayMs: 0 }])).toEqual(['lost'])
    expect(await adapter.adopt?.(grant, request('2'))).toBe('lost')
    expect(await adapter.inspect('a')).toMatchObject({ held: false })
    expect(await adapter.attempt(request('1'))).toMatchObject({ fence: 2n })
  })

  test('a lock-delay keeps the name from others, and does not revive its old holder', async () => {
    const { clock, adapter } = setUp()
    const grant = { name: 'a', attemptId: '1', fence: 1n, ttlMs: 100 }
    await adapter.attempt(request('1', { lockDelayMs: 50 }))
    clock.move(120)
    expect(await adapter.attempt(request('2', { willWait: false }))).toMatchObject({ busy: true })
    expect(await adapter.renew([{ grant, ttlMs: 100, lockDelayMs: 50 }])).toEqual(['lost'])
    expect(await adapter.adopt?.(grant, request('3'))).toBe('lost')
    clock.move(30)
    expect(await adapter.attempt(request('2'))).toMatchObject({ fence: 2n })
  })

  test('a wait ends after its time and by its signal, and leaves no timer or listener', async () => {
    const { clock, adapter } = setUp()
    await adapter.attempt(request('1'))
    await adapter.attempt(request('2'))
    const controller = new AbortController()
    const timed = adapter.wait?.(request('2'), 50, controller.signal)
    clock.move(50)
    expect(await timed).toBeUndefined()
    const aborted = adapter.wait?.(request('2'), 50, controller.signal)
    controller.abort()
    expect(await aborted).toBeUndefined()
    expect(clock.timers.size).toBe(0)
  })

  test('a wait whose signal has already aborted ends at once', async () => {
    const { clock, adapter } = setUp()
    await adapter.attempt(request('1'))
    await adapter.attempt(request('2'))
    expect(await adapter.wait?.(request('2'), 50, AbortSignal.abort())).toBeUndefined()
    expect(clock.timers.size).toBe(0)
  })
})
