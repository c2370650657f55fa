import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import type { Adapter } from '../../src/adapter/index.ts'
import { codeOf, harness, reasonOf, watch } from '../support/harness.ts'
import { gate, hang, slow } from '../support/steps.ts'
import { settled } from '../support/virtual-clock.ts'

/** Waits until the signal aborts. */
const deaf: NonNullable<Adapter['wait']> = (_, __, signal) =>
  new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(undefined))
  })

describe('a wait', () => {
  test('ends after waitMs in LOCK_TIMEOUT with the holder, and is withdrawn', async () => {
    const { clock, store, locks } = harness()
    store.seize('a')
    const acquired = watch(locks.lock('a').acquire({ waitMs: 700 }))
    await clock.advance(699)
    expect(acquired.state).toBe('pending')
    await clock.advance(1)
    expect(acquired.error).toMatchObject({ code: 'LOCK_TIMEOUT', lock: 'a', holder: { owner: 'stranger' } })
    expect(store.calls.withdraw).toBe(1)
  })

  test.each([
    ['at the store', deaf],
    ['between two tries', undefined],
  ])(
    '%s, over during a pause of the process, is LOCK_TIMEOUT: not a store that is silent',
    async (_, wait) => {
      const { clock, store, locks } = harness({ store: wait === undefined ? {} : { wait } })
      store.seize('a')
      const acquired = watch(locks.lock('a').acquire({ waitMs: 700 }))
      await clock.advance(100)
      clock.block(5_000)
      await clock.advance(0)
      expect(acquired.error).toMatchObject({ code: 'LOCK_TIMEOUT', holder: { owner: 'stranger' } })
    },
  )

  test('behind a local holder ends after waitMs too, naming it', async () => {
    const { clock, store, locks } = harness()
    await locks.lock('a').acquire({ owner: 'first' })
    const acquired = watch(locks.lock('a').acquire({ waitMs: 700 }))
    await clock.advance(700)
    expect(acquired.error).toMatchObject({ code: 'LOCK_TIMEOUT', holder: { owner: 'first' } })
    expect([store.calls.attempt, store.calls.withdraw]).toEqual([1, 0])
  })

  test('ends after the last of its attempts', async () => {
    const { clock, store, locks } = harness()
    store.seize('a')
    const acquired = watch(locks.lock('a').acquire({ waitMs: 60_000, retry: { attempts: 3 } }))
    await clock.advance(10_000)
    expect(codeOf(acquired.error)).toBe('LOCK_TIMEOUT')
    expect(store.calls.attempt).toBe(3)
  })

  test('polls with growing, jittered, capped delays and one attempt id', async () => {
    const { clock, store, locks } = harness()
    clock.fixRandom(0.999)
    store.seize('a', 600_000)
    void watch(locks.lock('a').acquire({ waitMs: 100_000, retry: { delayMs: 10, maxDelayMs: 200 } }))
    await clock.advance(20_000)
    expect(store.calls.attempt).toBeGreaterThan(100)
    expect(store.calls.attempt).toBeLessThan(110)
    expect(new Set(store.attempts.map(({ attemptId }) => attemptId)).size).toBe(1)
    expect(store.attempts.every(({ willWait }) => willWait)).toBe(true)
  })

  test('keeps the process alive, a mere hold does not', async () => {
    const { clock, store, locks } = harness()
    await locks.lock('b').acquire()
    expect(clock.keepsAlive).toBe(false)
    store.seize('a')
    const acquired = watch(locks.lock('a').acquire({ waitMs: 700 }))
    await settled()
    expect(clock.keepsAlive).toBe(true)
    await clock.advance(700)
    expect(acquired.state).toBe('rejected')
    expect(clock.keepsAlive).toBe(false)
  })

  test('of a store that hands over takes the grant, dated by when the store made it', async () => {
    const { clock, store, locks } = harness({
      store: {
        wait: async ({ name, attemptId, ttlMs }) => {
          await new Promise<void>((resolve) => clock.timer(300, resolve))
          return { name, attemptId, ttlMs, fence: 7n, grantedAt: clock.now() - 100 }
        },
      },
    })
    store.seize('a')
    const acquired = watch(locks.lock('a').acquire({ ttlMs: 1_000, renew: false }))
    await clock.advance(300)
    expect(acquired.value?.fence).toBe(7n)
    expect(acquired.value?.remainingMs).toBe(888)
    expect(store.calls.attempt).toBe(1)
  })

  test('does not take a grant that was over when it was read, and withdraws it', async () => {
    const { clock, store, locks } = harness({
      store: {
        wait: async ({ name, attemptId, ttlMs }) => ({
          name,
          attemptId,
          ttlMs,
          fence: 7n,
          grantedAt: clock.now() - 1_000,
        }),
      },
    })
    store.seize('a')
    const acquired = watch(locks.lock('a').acquire({ ttlMs: 1_000, waitMs: 500 }))
    await settled()
    expect(acquired.state).toBe('pending')
    expect(store.calls.withdraw).toBe(1)
    await clock.advance(500)
    expect(acquired.state).toBe('rejected')
    expect(store.attempts.map(({ attemptId }) => attemptId)).toHaveLength(
      new Set(store.attempts.map(({ attemptId }) => attemptId)).size,
    )
  })

  test('that the adapter never ends is ended by core: the next try comes soon after retryInMs', async () => {
    const { clock, store, locks } = harness({ store: { wait: deaf, busy: { retryInMs: 200 } } })
    store.seize('a')
    const acquired = watch(locks.lock('a').acquire({ waitMs: 5_000 }))
    await clock.advance(100)
    store.free('a')
    await clock.advance(2_000)
    expect(acquired.state).toBe('fulfilled')
  })

  test('that the adapter ends at once, again and again, does not become a storm', async () => {
    const { clock, store, locks } = harness({ store: { wait: async () => undefined } })
    store.seize('a')
    store.always('attempt', slow(1))
    void watch(locks.lock('a').acquire({ waitMs: 2_000 }))
    await clock.advance(2_000)
    expect(store.calls.attempt).toBeLessThan(200)
  })
})

describe('an abort', () => {
  const reason = new Error('changed my mind')

  test('before the call touches nothing', async () => {
    const { store, locks } = harness()
    const signal = AbortSignal.abort(reason)
    expect(await reasonOf(locks.lock('a').acquire({ signal }))).toBe(reason)
    expect(await reasonOf(locks.lock('a').tryAcquire({ signal }))).toBe(reason)
    expect(await reasonOf(locks.with('a', { signal }, () => 1))).toBe(reason)
    expect(store.totalCalls).toBe(0)
  })

  test('during an attempt answers at once and withdraws the grant that comes late', async () => {
    const { store, locks } = harness()
    const controller = new AbortController()
    const { step, open } = gate()
    store.next('attempt', step)
    const acquired = watch(locks.lock('a').acquire({ signal: controller.signal }))
    await settled()
    controller.abort(reason)
    await settled()
    expect(acquired.error).toBe(reason)
    open()
    await settled()
    expect(store.holder('a')).toBeUndefined()
    expect(store.calls.withdraw).toBe(1)
  })

  test('during an attempt that later fails withdraws as well', async () => {
    const { clock, store, locks } = harness()
    const controller = new AbortController()
    store.next('attempt', async (act) => {
      act()
      await new Promise<void>((resolve) => clock.timer(100, resolve))
      throw new Error('reset')
    })
    const acquired = watch(locks.lock('a').acquire({ signal: controller.signal }))
    await settled()
    controller.abort(reason)
    await clock.advance(200)
    expect(acquired.error).toBe(reason)
    expect(store.holder('a')).toBeUndefined()
  })

  test('during the store’s own wait ends it, and its late grant is withdrawn', async () => {
    const signals: AbortSignal[] = []
    const { store, locks } = harness({
      store: {
        wait: ({ name, attemptId, ttlMs }, _, signal) => {
          signals.push(signal)
          return new Promise((resolve) => {
            signal.addEventListener('abort', () =>
              resolve({ name, attemptId, ttlMs, fence: 9n, grantedAt: 1_000 }),
            )
          })
        },
      },
    })
    store.seize('a')
    const controller = new AbortController()
    const acquired = watch(locks.lock('a').acquire({ signal: controller.signal }))
    await settled()
    controller.abort(reason)
    await settled()
    expect(acquired.error).toBe(reason)
    expect(signals.map(({ aborted }) => aborted)).toEqual([true])
    expect(store.calls.withdraw, 'once on leaving, once for the grant').toBe(2)
  })

  test('during a back-off makes no further attempt', async () => {
    const { clock, store, locks } = harness()
    store.seize('a')
    const controller = new AbortController()
    const acquired = watch(locks.lock('a').acquire({ signal: controller.signal }))
    await settled()
    controller.abort(reason)
    await clock.advance(20_000)
    expect(acquired.error).toBe(reason)
    expect(store.calls.attempt).toBe(1)
  })

  test('after the lease was returned concerns it no more', async () => {
    const { clock, locks } = harness()
    const controller = new AbortController()
    const lease = await locks.lock('a').acquire({ signal: controller.signal })
    controller.abort(reason)
    await clock.advance(20_000)
    expect(lease.state).toBe('held')
    expect(lease.signal.aborted).toBe(false)
  })

  test('leaves no listener on the caller’s signal, however the call ended', async () => {
    const { clock, store, locks } = harness()
    const { signal } = new AbortController()
    const first = await locks.lock('a').acquire({ signal })
    expect(await locks.lock('a').tryAcquire({ signal })).toBeNull()
    const timedOut = watch(locks.lock('a').acquire({ signal, waitMs: 10 }))
    await clock.advance(10)
    expect(timedOut.state).toBe('rejected')
    await first.release()
    store.next('attempt', hang)
    void watch(locks.lock('b').acquire({ signal }))
    await clock.advance(10_000)
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  test('while the store is silent does not keep the next one waiting forever', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 500 } })
    const controller = new AbortController()
    store.next('attempt', hang)
    store.next('withdraw', hang)
    void watch(locks.lock('a').acquire({ signal: controller.signal }))
    const next = watch(locks.lock('a').acquire())
    await settled()
    controller.abort(reason)
    await clock.advance(500)
    expect(next.state).toBe('fulfilled')
  })
})
