import { describe, expect, test } from 'vitest'
import { LockError } from '../../src/index.ts'
import { callUntyped, codeOf, harness, reasonOf, watch } from '../support/harness.ts'
import { fail, hang, loseReply } from '../support/steps.ts'
import { settled } from '../support/virtual-clock.ts'

describe('with', () => {
  test('returns what the callback returned, after the release', async () => {
    const { store, locks } = harness()
    expect(await locks.with('a', ({ fence }) => ({ fence }))).toEqual({ fence: 1n })
    expect(store.holder('a')).toBeUndefined()
    expect(await locks.lock('a').with({ ttlMs: 900 }, async () => 'async')).toBe('async')
  })

  test.each([
    [
      'throws',
      () => {
        throw boom
      },
    ],
    ['rejects', () => Promise.reject(boom)],
  ])('passes on what a callback that %s gives, after the release', async (_, body) => {
    const { store, locks } = harness()
    expect(await reasonOf(locks.with('a', body))).toBe(boom)
    expect(store.holder('a')).toBeUndefined()
  })

  test('does not call the callback without the lock', async () => {
    const { store, locks } = harness()
    store.seize('a')
    let called = false
    const reason = await reasonOf(locks.with('a', { waitMs: 0 }, () => (called = true)))
    expect([codeOf(reason), called]).toEqual(['LOCK_TIMEOUT', false])
  })

  test.each([
    ['fails', fail()],
    ['hangs', hang],
    ['loses its reply', loseReply()],
  ])('a release that %s replaces neither result nor error', async (_, step) => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 500 } })
    store.always('release', step)
    const result = watch(locks.with('a', () => 'done'))
    const error = watch(locks.with('b', () => Promise.reject(boom)))
    await clock.advance(500)
    expect(result.value).toBe('done')
    expect(error.error).toBe(boom)
  })

  test('a release that failed is repeated while the lease would have lasted, and frees the lock', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 500 } })
    store.always('release', fail())
    const done = watch(locks.with('a', () => 'done'))
    await clock.advance(500)
    expect(done.value).toBe('done')
    await clock.advance(2_000)
    expect(store.holder('a')).toBeDefined()
    store.always('release')
    await clock.advance(5_000)
    expect(store.holder('a')).toBeUndefined()
    const { release } = store.calls
    await clock.advance(60_000)
    expect(store.calls.release).toBe(release)
  })

  test('a release that the store refuses for good is repeated as well, and no longer than the lease', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 500 } })
    store.always('release', fail(new LockError('LOCK_INVALID_ARGUMENT', 'prepared statement exists')))
    await locks.with('a', { ttlMs: 10_000 }, () => 'done')
    await clock.advance(9_000)
    const { release } = store.calls
    expect(release).toBeGreaterThan(3)
    expect(release).toBeLessThan(30)
    expect(clock.keepsAlive).toBe(false)
    await clock.advance(60_000)
    expect(store.calls.release - release).toBeLessThan(3)
  })

  test('a release that failed is tried once more by close, and not after it', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 500 } })
    store.always('release', hang)
    const done = watch(locks.with('a', () => 'done'))
    await clock.advance(600)
    expect(done.value).toBe('done')
    store.always('release')
    await locks.close()
    expect(store.holder('a')).toBeUndefined()
    expect(store.log.at(-1)).toBe('close')
    await clock.advance(60_000)
    expect(store.log.at(-1)).toBe('close')
  })

  test('a loss surfaces although the callback finished', async () => {
    const { clock, locks } = harness()
    const outcome = locks.with('a', { ttlMs: 900, renew: false }, () => {
      clock.block(900)
      return 'done'
    })
    expect(codeOf(await reasonOf(outcome))).toBe('LOCK_LOST')
  })

  test('a loss that only the release finds surfaces too', async () => {
    const { store, locks } = harness()
    expect(codeOf(await reasonOf(locks.with('a', () => store.seize('a'))))).toBe('LOCK_LOST')
  })

  test('a loss and an error of the callback come together: the loss, caused by the error', async () => {
    const { clock, locks } = harness()
    const outcome = locks.with('a', { ttlMs: 900, renew: false }, () => {
      clock.block(900)
      throw boom
    })
    expect(await reasonOf(outcome)).toMatchObject({ code: 'LOCK_LOST', lock: 'a', cause: boom })
  })

  test('a callback that throws its signal’s reason is not wrapped again', async () => {
    const { clock, locks } = harness()
    let reason: unknown
    const outcome = locks.with('a', { ttlMs: 900, renew: false }, ({ signal }) => {
      clock.block(900)
      return locks.with('b', async () => {
        await clock.advance(0)
        reason = signal.reason
        throw signal.reason
      })
    })
    expect(await reasonOf(outcome)).toBe(reason)
    expect(codeOf(reason)).toBe('LOCK_LOST')
  })

  test('the loss of an inner lock is not mistaken for one’s own', async () => {
    const { store, locks } = harness()
    const inner = new LockError('LOCK_LOST', 'inner', { lock: 'b' })
    expect(await reasonOf(locks.with('a', () => Promise.reject(inner)))).toBe(inner)
    expect(store.holder('a')).toBeUndefined()
  })

  test('a close meanwhile surfaces as LOCK_CLOSED', async () => {
    const { locks } = harness()
    const outcome = locks.with('a', async ({ signal }) => {
      await locks.close()
      return codeOf(signal.reason)
    })
    expect(codeOf(await reasonOf(outcome))).toBe('LOCK_CLOSED')
  })

  test('a callback that released by itself, or left it under way, has done no wrong', async () => {
    const { store, locks } = harness()
    expect(await locks.with('a', async (lease) => lease.release().then(() => 1))).toBe(1)
    const released: Promise<void>[] = []
    expect(await locks.with('a', (lease) => released.push(lease.release()))).toBe(1)
    await Promise.all(released)
    expect(store.calls.release).toBe(2)
  })

  test('a lease handed over inside is not released', async () => {
    const { store, locks } = harness()
    const text = await locks.with('a', (lease) => lease.serialize())
    expect(store.calls.release).toBe(0)
    expect((await locks.resume(text)).fence).toBe(1n)
  })

  test('without a callback is refused before the store is touched', async () => {
    const { store, locks } = harness()
    for (const args of [[], [{}], [undefined], ['text'], [{}, 'text']]) {
      expect(codeOf(await reasonOf(callUntyped(locks, 'with', 'a', ...args)))).toBe('LOCK_INVALID_ARGUMENT')
      expect(codeOf(await reasonOf(callUntyped(locks.lock('a'), 'with', ...args)))).toBe(
        'LOCK_INVALID_ARGUMENT',
      )
    }
    await settled()
    expect(store.totalCalls).toBe(0)
  })
})

const boom = new Error('boom')
