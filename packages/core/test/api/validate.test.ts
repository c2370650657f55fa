import { fc } from '../support/fast-check.ts'
import { describe, expect, test } from 'vitest'
import { createLocks } from '../../src/index.ts'
import { callUntyped, codeOf, harness, reasonOf, watch } from '../support/harness.ts'
import { ScriptedStore } from '../support/scripted-adapter.ts'
import { hang } from '../support/steps.ts'

const wellFormedName = fc
  .string({ unit: 'binary', minLength: 1, maxLength: 1024 })
  .filter((name) => Buffer.byteLength(name) <= 1024)

const notAString = fc.oneof(
  fc.constantFrom<unknown>(undefined, null, true, 0, 1n, Symbol('name'), [], {}, ['a'], Object('boxed')),
  fc.double(),
)

/** Values that are not whole milliseconds in any documented range. */
const noDuration = fc.oneof(
  fc.constantFrom<unknown>(
    NaN,
    Infinity,
    -Infinity,
    2 ** 31,
    2 ** 53,
    '10',
    '10sec',
    '10 s',
    '-10s',
    '1e3ms',
    '0.5ms',
    '99999h',
    's',
    '',
    10n,
    null,
    true,
    {},
    [10],
  ),
  fc.integer({ max: -1 }),
  fc.double({ noInteger: true }),
)

const durationKeys = ['ttlMs', 'waitMs', 'maxHoldMs', 'lockDelayMs', 'minHoldMs'] as const
const retryKeys = ['attempts', 'delayMs', 'maxDelayMs'] as const

describe('lock names', () => {
  test('any well-formed text up to 1 KiB of UTF-8 is a distinct name', async () => {
    await fc.assert(
      fc.asyncProperty(wellFormedName, async (name) => {
        const { locks, store } = harness()
        const lease = await locks.lock(name).acquire()
        expect(lease.name).toBe(name)
        expect(store.holder(name)).toBeDefined()
        await lease.release()
        expect(store.holder(name)).toBeUndefined()
      }),
    )
  })

  test.each(['__proto__', 'constructor', 'toString', ' ', '\0', 'é', 'e\u0301', '💥', 'x'.repeat(1024)])(
    'the name %j is ordinary',
    async (name) => {
      const { locks } = harness()
      await using lease = await locks.lock(name).acquire()
      expect(lease.name).toBe(name)
    },
  )

  test('names that differ only in Unicode normalisation are different locks', async () => {
    const { locks } = harness()
    await locks.lock('\u00e9').acquire()
    expect(await locks.lock('e\u0301').tryAcquire()).not.toBeNull()
  })

  test.each([
    ['empty', ''],
    ['one byte too long', 'x'.repeat(1025)],
    ['too long only in bytes', 'é'.repeat(513)],
    ['a lone high surrogate', 'a\ud800'],
    ['a lone low surrogate', '\udc00a'],
    ['surrogates the wrong way round', '\udc00\ud800'],
  ])('a name that is %s is refused before the store is touched', async (_, name) => {
    const { locks, store } = harness()
    expect(codeOf(await reasonOf(callUntyped(locks, 'lock', name)))).toBe('LOCK_INVALID_ARGUMENT')
    expect(codeOf(await reasonOf(callUntyped(locks, 'inspect', name)))).toBe('LOCK_INVALID_ARGUMENT')
    expect(codeOf(await reasonOf(locks.with(name, () => 1)))).toBe('LOCK_INVALID_ARGUMENT')
    expect(store.totalCalls).toBe(0)
  })

  test('a name that is no string is refused before the store is touched', async () => {
    await fc.assert(
      fc.asyncProperty(notAString, async (name) => {
        const { locks, store } = harness()
        expect(codeOf(await reasonOf(callUntyped(locks, 'lock', name)))).toBe('LOCK_INVALID_ARGUMENT')
        expect(store.totalCalls).toBe(0)
      }),
    )
  })

  test('the adapter may allow less than 1 KiB', async () => {
    const { locks } = harness({ store: { capabilities: { maxNameBytes: 3 } } })
    expect(locks.lock('abc').name).toBe('abc')
    expect(codeOf(await reasonOf(callUntyped(locks, 'lock', 'abcd')))).toBe('LOCK_INVALID_ARGUMENT')
  })
})

describe('durations and counts', () => {
  test('no value but a whole number in range passes, for any key, in any place', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...durationKeys), noDuration, async (key, value) => {
        const { locks, store } = harness()
        const options = { [key]: value }
        expect(codeOf(await reasonOf(callUntyped(locks.lock('a'), 'acquire', options)))).toBe(
          'LOCK_INVALID_ARGUMENT',
        )
        expect(codeOf(await reasonOf(callUntyped(locks, 'lock', 'a', options)))).toBe('LOCK_INVALID_ARGUMENT')
        expect(codeOf(await reasonOf(callUntyped(locks, 'with', 'a', options, () => 1)))).toBe(
          'LOCK_INVALID_ARGUMENT',
        )
        expect(store.totalCalls).toBe(0)
      }),
    )
  })

  test('the same holds for each key of retry', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...retryKeys),
        fc.oneof(noDuration, fc.constant(0)),
        async (key, value) => {
          const { locks, store } = harness()
          const reason = await reasonOf(callUntyped(locks.lock('a'), 'acquire', { retry: { [key]: value } }))
          expect(codeOf(reason)).toBe('LOCK_INVALID_ARGUMENT')
          expect(store.totalCalls).toBe(0)
        },
      ),
    )
  })

  test('may be strings, for every key that ends in Ms', async () => {
    const { clock, locks, store } = harness({ locks: { storeTimeoutMs: '2s', waitMs: '1m' } })
    const lock = locks.lock('a', { ttlMs: '1.5m', lockDelayMs: '1s' })
    const lease = await lock.acquire()
    expect(store.attempts[0]).toMatchObject({ ttlMs: 90_000, lockDelayMs: 1_000 })
    await lease.extend('2m')
    expect(store.renewals[0]?.[0]?.ttlMs).toBe(120_000)
    const waiting = watch(lock.acquire({ waitMs: '500ms', ttlMs: '10s', maxHoldMs: '1h' }))
    await clock.advance(499)
    expect(waiting.state).toBe('pending')
    await clock.advance(1)
    expect(codeOf(waiting.error)).toBe('LOCK_TIMEOUT')
    store.always('inspect', hang)
    const looking = watch(locks.inspect('a'))
    await clock.advance(2_000)
    expect(codeOf(looking.error)).toBe('LOCK_UNAVAILABLE')
  })

  test('may be texts in retry', async () => {
    const { clock, locks, store } = harness()
    clock.fixRandom(1)
    store.seize('a')
    watch(locks.lock('a').acquire({ waitMs: '1m', retry: { delayMs: '10s', maxDelayMs: '10s' } }))
    await clock.advance(9_000)
    expect(store.calls.attempt).toBe(1)
    await clock.advance(1_100)
    expect(store.calls.attempt).toBe(2)
  })

  test('a text of the wrong unit says what to write', async () => {
    const { locks, store } = harness()
    const reason = await reasonOf(callUntyped(locks.lock('a'), 'acquire', { ttlMs: '10sec' }))
    expect(String(reason)).toContain("(milliseconds, or a string such as '500ms', '10s' or '2m'), got string")
    expect(store.totalCalls).toBe(0)
  })

  test.each([0, -1, 86_400_001])('ttlMs %d is refused', async (ttlMs) => {
    const { locks } = harness()
    expect(codeOf(await reasonOf(locks.lock('a').acquire({ ttlMs })))).toBe('LOCK_INVALID_ARGUMENT')
  })

  test('a ttl below what the adapter can do is refused', async () => {
    const { locks, store } = harness({ store: { capabilities: { minTtlMs: 100 } } })
    expect(codeOf(await reasonOf(locks.lock('a').acquire({ ttlMs: 99 })))).toBe('LOCK_INVALID_ARGUMENT')
    expect(store.totalCalls).toBe(0)
  })

  test('minus zero is zero: try once', async () => {
    const { locks, store } = harness()
    store.seize('a')
    expect(codeOf(await reasonOf(locks.lock('a').acquire({ waitMs: -0 })))).toBe('LOCK_TIMEOUT')
    expect(store.calls.attempt).toBe(1)
  })

  test('storeTimeoutMs is checked too', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(noDuration, fc.constant(0)), async (storeTimeoutMs) => {
        const make = { createLocks }
        const reason = await reasonOf(
          callUntyped(make, 'createLocks', new ScriptedStore().factory, { storeTimeoutMs }),
        )
        expect(codeOf(reason)).toBe('LOCK_INVALID_ARGUMENT')
      }),
    )
  })

  test('an extension is checked like a ttl', async () => {
    const { locks, store } = harness()
    const lease = await locks.lock('a').acquire()
    for (const ttlMs of [0, 9, -1, 1.5, NaN, Infinity, '10', '9ms', '2 m', 10n, null])
      expect(codeOf(await reasonOf(callUntyped(lease, 'extend', ttlMs)))).toBe('LOCK_INVALID_ARGUMENT')
    expect(store.calls.renew).toBe(0)
  })
})
