import assert from 'node:assert/strict'
import type { Capabilities } from '../../adapter/capabilities.ts'
import { isRecord } from '../../adapter/is-record.ts'
import { createLocks } from '../../api/locks.ts'
import { MAX_LABEL_BYTES, MAX_NAME_BYTES, MAX_OWNER_BYTES } from '../../api/options.ts'
import type { Adapter } from '../../adapter/spi.ts'
import type { Faults } from '../faulty-adapter.ts'
import type { Harness } from '../harness.ts'
import type { Rule } from '../rule.ts'
import { assertHolder, assertStillHeld, lockError } from './observe.ts'
import { oddNames } from './odd-names.ts'

/** Calls a method as code without types may: with anything. What it throws, it rejects with. */
async function untyped(target: object, method: string, ...args: unknown[]): Promise<unknown> {
  const fn: unknown = Reflect.get(target, method)
  assert.ok(typeof fn === 'function', method)
  return Reflect.apply(fn, target, args)
}

function callsOf({ calls }: Faults): number {
  return Object.values(calls).reduce((sum, count) => sum + count, 0)
}

/** For a client that must not come into being. */
function unusedAdapter(capabilities: Capabilities): Adapter {
  const touched = (): Promise<never> => Promise.reject(new Error('the store was asked'))
  const close = (): Promise<void> => Promise.resolve()
  return {
    capabilities,
    attempt: touched,
    withdraw: touched,
    renew: touched,
    release: touched,
    inspect: touched,
    adopt: touched,
    list: touched,
    break: touched,
    close,
  }
}

/** Fails the rule unless every way to give these options refuses them before anything is touched. */
async function refuses(h: Harness, allOptions: readonly unknown[], naming?: string): Promise<void> {
  const { locks, faults } = await h.client()
  const name = h.name()
  const lock = locks.lock(name)
  const unused = unusedAdapter(h.capabilities)
  const body = (): void => assert.fail('the callback ran')
  for (const options of allOptions) {
    const outcomes = [
      untyped(locks, 'lock', name, options),
      untyped(lock, 'acquire', options),
      untyped(lock, 'with', options, body),
      untyped(locks, 'with', name, options, body),
    ]
    if (!Array.isArray(options)) outcomes.push(untyped({ createLocks }, 'createLocks', () => unused, options))
    // It takes neither of these, good or bad.
    const alien = isRecord(options) && ('waitMs' in options || 'retry' in options)
    if (!alien) outcomes.push(untyped(lock, 'tryAcquire', options))
    const refusals = await Promise.all(outcomes.map((outcome) => lockError(outcome, 'LOCK_INVALID_ARGUMENT')))
    for (const { message } of refusals)
      assert.ok(naming === undefined || message.includes(naming), `${message} does not name ${naming}`)
  }
  assert.equal(callsOf(faults), 0, 'the store was asked')
}

const badTexts = ['', 5, null, {}, ['a'], '\u{d800}', 'a\u{dfff}b']
const badIntegers = [
  NaN,
  Infinity,
  -Infinity,
  -1,
  0.5,
  2 ** 31,
  2 ** 53,
  '1000',
  '',
  null,
  true,
  10n,
  [10],
  {},
]

export const names: readonly Rule[] = [
  {
    id: 'NAME-1',
    title:
      'an invalid name (not a string, empty, too long, ill-formed) is refused before the store is called',
    kind: 'required',
    async run(h) {
      const { locks, faults } = await h.client()
      const max = Math.min(MAX_NAME_BYTES, h.capabilities.maxNameBytes)
      const tooLong = ['a'.repeat(max + 1), 'é'.repeat(Math.floor(max / 2) + 1)]
      for (const name of [...badTexts, undefined, Symbol('a'), ...tooLong]) {
        await h.rejects(untyped(locks, 'lock', name), 'LOCK_INVALID_ARGUMENT')
        await h.rejects(untyped(locks, 'inspect', name), 'LOCK_INVALID_ARGUMENT')
        await h.rejects(
          untyped(locks, 'with', name, () => assert.fail('it ran')),
          'LOCK_INVALID_ARGUMENT',
        )
      }
      assert.equal(callsOf(faults), 0, 'the store was asked')
    },
  },
  {
    id: 'NAME-2',
    title: 'unusual names work like others: each can be held, and no two of them collide',
    kind: 'required',
    timeoutMs: 60_000,
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const unique = h.name()
      for (const family of oddNames(unique, Math.min(MAX_NAME_BYTES, h.capabilities.maxNameBytes))) {
        family.forEach((name) => h.named(name))
        const leases = []
        for (const name of family) {
          const lock = holder.locks.lock(name)
          // Those that are the same in every run of the suite may be held by another one just now.
          const lease = await (name.includes(unique)
            ? lock.tryAcquire()
            : lock.acquire({ waitMs: h.ms(20_000) }))
          assert.ok(lease, `${JSON.stringify(name)} is free, and taken for another name`)
          assert.equal(lease.name, name)
          leases.push(lease)
        }
        for (const lease of leases) {
          assert.equal(await other.locks.lock(lease.name).tryAcquire(), null, JSON.stringify(lease.name))
          await assertHolder(h, lease)
        }
        for (const lease of leases) await lease.release()
      }
    },
  },
  {
    id: 'NAME-3',
    title: 'durations and counts out of their range are refused before the store is touched',
    kind: 'required',
    async run(h) {
      const positive = ['ttlMs', 'maxHoldMs']
      for (const key of ['waitMs', 'lockDelayMs', ...positive]) {
        const bad = positive.includes(key) ? [...badIntegers, 0] : badIntegers
        await refuses(
          h,
          bad.map((value) => ({ [key]: value })),
          key,
        )
      }
      for (const key of ['attempts', 'delayMs', 'maxDelayMs'])
        await refuses(
          h,
          [...badIntegers, 0].map((value) => ({ retry: { [key]: value } })),
          key,
        )
      for (const storeTimeoutMs of [...badIntegers, 0])
        await h.rejects(untyped(h, 'client', { storeTimeoutMs }), 'LOCK_INVALID_ARGUMENT')
      const { locks, faults } = await h.client()
      const lease = await locks.lock(h.name()).acquire()
      for (const value of [...badIntegers, 0])
        await h.rejects(untyped(lease, 'extend', value), 'LOCK_INVALID_ARGUMENT')
      assert.equal(faults.calls.renew, 0)
      await assertStillHeld(h, lease)
    },
  },
  {
    id: 'NAME-4',
    title: 'an unknown option is refused by its name, however near it is to a known one',
    kind: 'required',
    async run(h) {
      for (const key of ['ttl', 'ttlms', 'timeout', 'waitMS', 'attempts', 'toString', '__proto__'])
        await refuses(h, [JSON.parse(`{${JSON.stringify(key)}: 1000}`)], key)
      await refuses(h, [{ retry: { tries: 3 } }], 'tries')
      await refuses(h, [{ retry: { ttlMs: 3 } }], 'ttlMs')
    },
  },
  {
    id: 'NAME-5',
    title: 'bad owners, labels, signals, modes and option objects are refused before the store is touched',
    kind: 'required',
    async run(h) {
      const texts = (key: string, max: number): unknown[] =>
        [...badTexts, 'a'.repeat(max + 1)].map((value) => ({ [key]: value }))
      await refuses(h, texts('owner', MAX_OWNER_BYTES), 'owner')
      await refuses(h, texts('label', MAX_LABEL_BYTES), 'label')
      const signals = [{}, 'abort', null, new AbortController(), { aborted: false }]
      await refuses(
        h,
        signals.map((signal) => ({ signal })),
        'signal',
      )
      await refuses(
        h,
        ['yes', 1, null].map((renew) => ({ renew })),
        'renew',
      )
      await refuses(
        h,
        ['write', '', 1, null].map((mode) => ({ mode })),
        'mode',
      )
      await refuses(
        h,
        [5, null, 'often', []].map((retry) => ({ retry })),
        'retry',
      )
      await refuses(h, [5, null, 'fast', []])
      const { locks, faults } = await h.client()
      for (const args of [[], [{}], [{}, 'body'], [undefined, {}]])
        await h.rejects(untyped(locks.lock(h.name()), 'with', ...args), 'LOCK_INVALID_ARGUMENT')
      if (!h.capabilities.modes.some((mode) => String(mode) === 'shared'))
        await h.rejects(untyped(locks, 'lock', h.name(), { mode: 'shared' }), 'LOCK_UNSUPPORTED')
      assert.equal(callsOf(faults), 0, 'the store was asked')
    },
  },
  {
    id: 'NAME-6',
    title: 'a ttl below what the store can keep is refused, not rounded up',
    kind: 'required',
    async run(h) {
      const { minTtlMs } = h.capabilities
      await refuses(h, [{ ttlMs: minTtlMs - 1 }], 'ttlMs')
      const { locks, faults } = await h.client()
      const lease = await locks.lock(h.name()).acquire()
      await h.rejects(lease.extend(minTtlMs - 1), 'LOCK_INVALID_ARGUMENT')
      assert.equal(faults.calls.renew, 0)
      await assertStillHeld(h, lease)
    },
  },
  {
    id: 'NAME-7',
    title: 'zero attempts are refused, and a single attempt asks the store exactly once',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      await refuses(h, [{ retry: { attempts: 0 } }], 'attempts')
      const lock = h.name()
      const options = { waitMs: h.ms(20_000), retry: { attempts: 1 } }
      const lease = await holder.locks.lock(lock).acquire(options)
      assert.equal(holder.faults.calls.attempt, 1)
      await assertHolder(h, lease)
      await h.rejects(other.locks.lock(lock).acquire(options), 'LOCK_TIMEOUT')
      assert.equal(other.faults.calls.attempt, 1)
    },
  },
]
