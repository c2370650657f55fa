import { describe, expectTypeOf, test } from 'vitest'
import { createLocks } from '../../src/index.ts'
import type {
  AdapterFactory,
  Capabilities,
  Holder,
  Lease,
  Lock,
  Locks,
  LockState,
  Once,
} from '../../src/index.ts'
import { ScriptedStore } from '../support/scripted-adapter.ts'

interface Poor extends Capabilities {
  readonly handover: false
  readonly lockDelay: false
  readonly minHold: false
  readonly list: false
  readonly break: false
}

interface Rich extends Capabilities {
  readonly handover: true
  readonly lockDelay: true
  readonly minHold: true
  readonly list: true
  readonly break: true
}

/** Never called: only the compiler's errors matter. */
export async function withPoor(locks: Locks<Poor>, factory: AdapterFactory<Poor>): Promise<void> {
  const lock = locks.lock('a')
  // @ts-expect-error this adapter has no lock delay
  await lock.acquire({ lockDelayMs: 1 })
  // @ts-expect-error nor as a default of a lock
  locks.lock('a', { lockDelayMs: 1 })
  // @ts-expect-error nor of the client
  createLocks(factory, { lockDelayMs: 1 })
  // @ts-expect-error nor in with
  await locks.with('a', { lockDelayMs: 1 }, () => 1)
  // @ts-expect-error this adapter has no minimum hold
  await lock.acquire({ minHoldMs: 1 })
  // @ts-expect-error so nothing can run once per period
  await locks.once('a', { minHoldMs: 1 }, () => 1)
  const lease = await lock.acquire()
  // @ts-expect-error this adapter cannot hand over
  lease.serialize()
  // @ts-expect-error on either side
  await locks.resume('text')
  // @ts-expect-error this adapter cannot list
  await locks.list()
  // @ts-expect-error nor break
  await lock.break()
}

export async function withRich(locks: Locks<Rich>, factory: AdapterFactory<Rich>): Promise<void> {
  createLocks(factory, { lockDelayMs: 1 })
  const lease = await locks.lock('a', { lockDelayMs: 1 }).acquire({ lockDelayMs: 1 })
  expectTypeOf(lease.serialize()).toEqualTypeOf<string>()
  expectTypeOf(await locks.resume('text')).toEqualTypeOf<Lease<Rich>>()
  expectTypeOf(await locks.list()).toEqualTypeOf<readonly LockState[]>()
  const outcome = await locks.once('a', { minHoldMs: 1 }, (held) => held.fence)
  expectTypeOf(outcome).toEqualTypeOf<Once<bigint>>()
  if (outcome.ran) expectTypeOf(outcome.value).toEqualTypeOf<bigint>()
  else expectTypeOf(outcome.holder).toEqualTypeOf<Holder | undefined>()
  expectTypeOf(await locks.lock('a').break()).toEqualTypeOf<Holder | null>()
}

export async function spelled(locks: Locks, factory: AdapterFactory): Promise<void> {
  createLocks(factory, { storeTimeoutMs: '2s', ttlMs: '1.5m', retry: { delayMs: '50ms', maxDelayMs: '1s' } })
  const lock = locks.lock('a', { ttlMs: '10s', maxHoldMs: '1h' })
  await (await lock.acquire({ waitMs: '500ms', lockDelayMs: '1s' })).extend('2m')
  // @ts-expect-error no such unit
  await lock.acquire({ ttlMs: '10sec' })
  // @ts-expect-error no unit
  await lock.acquire({ waitMs: '10' })
  // @ts-expect-error a unit without a number
  await locks.with('a', { maxHoldMs: 's' }, () => 1)
  // @ts-expect-error nor does the client know any
  createLocks(factory, { storeTimeoutMs: '2sec' })
  // @ts-expect-error no such unit here either
  await lock.acquire({ retry: { delayMs: '1d' } })
  // @ts-expect-error nor here
  await (await lock.acquire()).extend('1minute')
  // @ts-expect-error a count is no duration
  await lock.acquire({ retry: { attempts: '3s' } })
}

export async function misused(locks: Locks): Promise<void> {
  // @ts-expect-error a try does not wait
  await locks.lock('a').tryAcquire({ waitMs: 1 })
  // @ts-expect-error an owner belongs to one acquire
  locks.lock('a', { owner: 'me' })
  // @ts-expect-error no such option
  await locks.lock('a').acquire({ ttl: 1 })
  // @ts-expect-error once has to know for how long
  await locks.once('a', {}, () => 1)
  // @ts-expect-error no such event
  locks.on('lots', () => undefined)
}

describe('types', () => {
  test('say what calls return', () => {
    const locks = createLocks(new ScriptedStore().factory)
    expectTypeOf(locks).toEqualTypeOf<Locks>()
    expectTypeOf<Lock['tryAcquire']>().returns.resolves.toEqualTypeOf<Lease | null>()
    expectTypeOf<Lock['acquire']>().returns.resolves.toEqualTypeOf<Lease>()
    expectTypeOf<Locks['inspect']>().returns.resolves.toEqualTypeOf<LockState>()
    expectTypeOf<Lease['fence']>().toEqualTypeOf<bigint>()
  })

  test('keep the capabilities of the adapter', () => {
    expectTypeOf<ReturnType<typeof createLocks<Rich>>>().toEqualTypeOf<Locks<Rich>>()
    expectTypeOf<Locks<Poor>['capabilities']['handover']>().toEqualTypeOf<false>()
  })
})
