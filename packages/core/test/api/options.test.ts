import { describe, expect, test } from 'vitest'
import { createLocks } from '../../src/index.ts'
import { callUntyped, codeOf, harness, reasonOf } from '../support/harness.ts'
import { ScriptedStore } from '../support/scripted-adapter.ts'
import { fc } from '../support/fast-check.ts'

const known = new Set([
  ...[
    'ttlMs',
    'waitMs',
    'maxHoldMs',
    'lockDelayMs',
    'minHoldMs',
    'label',
    'owner',
    'renew',
    'mode',
    'signal',
    'retry',
  ],
  ...['attempts', 'delayMs', 'maxDelayMs', '__proto__'],
])

describe('options', () => {
  test('an unknown key is refused, with any value', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.string().filter((key) => !known.has(key)),
        fc.anything(),
        async (key, value) => {
          const { locks, store } = harness()
          const options = { [key]: value }
          for (const method of ['acquire', 'tryAcquire'])
            expect(codeOf(await reasonOf(callUntyped(locks.lock('a'), method, options)))).toBe(
              'LOCK_INVALID_ARGUMENT',
            )
          const refused = await reasonOf(callUntyped(locks.lock('a'), 'acquire', { retry: options }))
          expect(codeOf(refused)).toBe('LOCK_INVALID_ARGUMENT')
          expect(store.totalCalls).toBe(0)
        },
      ),
    )
  })

  test.each([
    ['owner', [1, {}, '', 'x'.repeat(257), '\ud800', null]],
    ['label', [1, {}, '', 'x'.repeat(257), '\ud800', null]],
    ['renew', [0, 1, 'true', null]],
    ['mode', ['read', 1, null, 'Exclusive']],
    ['signal', [{}, { aborted: false }, 1, 'now', null]],
    ['retry', [1, [], null, 'often']],
  ])('a bad %s is refused before the store is touched', async (key, values) => {
    const { locks, store } = harness()
    for (const value of values) {
      const reason = await reasonOf(callUntyped(locks.lock('a'), 'acquire', { [key]: value }))
      expect(codeOf(reason), JSON.stringify(value)).toBe('LOCK_INVALID_ARGUMENT')
    }
    expect(store.totalCalls).toBe(0)
  })

  test.each(['acquire', 'tryAcquire'])('%s refuses options that are no object', async (method) => {
    const { locks, store } = harness()
    for (const options of [null, 5, 'fast', [], true, () => 1])
      expect(codeOf(await reasonOf(callUntyped(locks.lock('a'), method, options)))).toBe(
        'LOCK_INVALID_ARGUMENT',
      )
    expect(store.totalCalls).toBe(0)
  })

  test('tryAcquire does not take a wait, rather than ignore it', async () => {
    const { locks } = harness()
    const reason = await reasonOf(callUntyped(locks.lock('a'), 'tryAcquire', { waitMs: 5_000 }))
    expect(codeOf(reason)).toBe('LOCK_INVALID_ARGUMENT')
  })

  test('an owner or a signal for all locks of a client is refused: its tasks would no longer exclude each other', async () => {
    const make = { createLocks }
    for (const options of [{ owner: 'me' }, { signal: new AbortController().signal }]) {
      const reason = await reasonOf(callUntyped(make, 'createLocks', new ScriptedStore().factory, options))
      expect(codeOf(reason)).toBe('LOCK_INVALID_ARGUMENT')
      const { locks } = harness()
      expect(codeOf(await reasonOf(callUntyped(locks, 'lock', 'a', options)))).toBe('LOCK_INVALID_ARGUMENT')
    }
  })

  test('createLocks refuses a missing factory and null options by code', async () => {
    const make = { createLocks }
    for (const args of [[undefined], [{}], [new ScriptedStore().factory, null]])
      expect(codeOf(await reasonOf(callUntyped(make, 'createLocks', ...args)))).toBe('LOCK_INVALID_ARGUMENT')
  })

  test('an adapter made for options that turn out bad is closed again', async () => {
    const store = new ScriptedStore()
    const reason = await reasonOf(callUntyped({ createLocks }, 'createLocks', store.factory, { ttlMs: -1 }))
    expect(codeOf(reason)).toBe('LOCK_INVALID_ARGUMENT')
    expect(store.host === undefined || store.calls.close === 1).toBe(true)
  })

  test('explicit undefined means not given', async () => {
    const { locks, store } = harness({ locks: { ttlMs: 500 } })
    await callUntyped(locks.lock('a'), 'acquire', { ttlMs: undefined, retry: undefined, owner: undefined })
    expect(store.attempts[0]?.ttlMs).toBe(500)
  })

  test('what the call says goes before the lock, the lock before the client', async () => {
    const { locks, store } = harness({ locks: { ttlMs: 500, label: 'client' } })
    const lock = locks.lock('a', { ttlMs: 600 })
    await (await lock.acquire({ ttlMs: 700 })).release()
    await (await lock.acquire()).release()
    await (await locks.lock('a').acquire()).release()
    expect(store.attempts.map((request) => request.ttlMs)).toEqual([700, 600, 500])
    expect(store.attempts[0]?.metadata.label).toBe('client')
  })

  test('a message shows no value that might be a secret', async () => {
    const { locks } = harness()
    for (const options of [
      { label: ['hunter2'] },
      { owner: { pw: 'hunter2' } },
      { mode: 'hunter2' },
      { ttlMs: 'hunter2' },
    ])
      expect(String(await reasonOf(callUntyped(locks.lock('a'), 'acquire', options)))).not.toContain(
        'hunter2',
      )
  })
})

describe('what the adapter does not support', () => {
  test.each([
    ['lockDelayMs', { lockDelayMs: 1 }, { lockDelay: false }],
    ['minHoldMs', { minHoldMs: 1 }, { minHold: false }],
    ['a fixed lease of a session', { renew: false }, { kind: 'session' }],
    ['a fixed lease of a connection', { renew: false }, { kind: 'connection' }],
    ['shared mode', { mode: 'shared' }, {}],
  ] as const)('%s is LOCK_UNSUPPORTED before the store is touched', async (_, options, capabilities) => {
    const { locks, store } = harness({ store: { capabilities } })
    expect(codeOf(await reasonOf(callUntyped(locks.lock('a'), 'acquire', options)))).toBe('LOCK_UNSUPPORTED')
    expect(codeOf(await reasonOf(callUntyped(locks, 'lock', 'a', options)))).toBe('LOCK_UNSUPPORTED')
    expect(store.totalCalls).toBe(0)
  })

  test('the refusal of minHoldMs says why, and what to use instead', async () => {
    const { locks } = harness({ store: { capabilities: { minHold: false } } })
    expect(String(await reasonOf(callUntyped(locks.lock('a'), 'acquire', { minHoldMs: 1 })))).toMatch(
      /minHoldMs is not supported by this adapter: .*after the release; use another adapter or strategy$/,
    )
  })

  test('hand-over is LOCK_UNSUPPORTED on both ends', async () => {
    const { locks, store } = harness({ store: { capabilities: { handover: false } } })
    const text = await handoverText()
    expect(codeOf(await reasonOf(callUntyped(locks, 'resume', text)))).toBe('LOCK_UNSUPPORTED')
    expect(store.totalCalls).toBe(0)
    const lease = await locks.lock('a').acquire()
    expect(codeOf(await reasonOf(callUntyped(lease, 'serialize')))).toBe('LOCK_UNSUPPORTED')
    expect(lease.state).toBe('held')
  })

  test('a lock delay of zero asks for nothing', async () => {
    const { locks } = harness({ store: { capabilities: { lockDelay: false } } })
    await callUntyped(locks.lock('a'), 'acquire', { lockDelayMs: 0 })
  })

  test('nor does a minimum hold of zero', async () => {
    const { locks } = harness({ store: { capabilities: { minHold: false } } })
    await callUntyped(locks.lock('a'), 'acquire', { minHoldMs: 0 })
  })
})

async function handoverText(): Promise<string> {
  return (await harness().locks.lock('a').acquire()).serialize()
}
