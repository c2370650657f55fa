import { describe, expect, test } from 'vitest'
import { isLockError } from '../../src/index.ts'
import { codeOf, harness, thrownCode, watch } from '../support/harness.ts'
import { hang, slow } from '../support/steps.ts'
import { settled } from '../support/virtual-clock.ts'

/** The part of a 1 s ttl that is relied on: 1 % and 2 ms less, for drift. */
const VALID_OF_1000 = 988

describe('the deadline of a lease', () => {
  test('counts from before the request was sent', async () => {
    const { clock, store, locks } = harness()
    store.next('attempt', slow(200, 300))
    const acquired = locks.lock('a').acquire({ ttlMs: 1_000, renew: false })
    await clock.advance(500)
    const lease = await acquired
    expect(lease.remainingMs).toBe(VALID_OF_1000 - 500)
    await clock.advance(VALID_OF_1000 - 501)
    expect(lease.state).toBe('held')
    await clock.advance(1)
    expect(lease.state).toBe('lost')
    expect(clock.now()).toBeLessThan(store.expiresAt('a') ?? Infinity)
  })

  test('a renewal moves it to a ttl from when the renewal was sent', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    store.next('renew', slow(50, 50))
    await clock.advance(300)
    expect(lease.remainingMs).toBe(889 - 300)
    await clock.advance(100)
    expect(lease.remainingMs).toBe(889 - 100)
  })

  test('a renewal moves nothing before it is confirmed', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    store.always('renew', hang)
    await clock.advance(888)
    expect(lease.remainingMs).toBe(1)
    await clock.advance(1)
    expect(lease.state).toBe('lost')
  })

  test('holds by the clock although no timer ran', async () => {
    const { clock, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 1_000 })
    lease.assertHeld()
    clock.block(VALID_OF_1000)
    expect(thrownCode(() => lease.assertHeld())).toBe('LOCK_LOST')
    expect(lease.state).toBe('lost')
    expect(lease.remainingMs).toBe(0)
  })

  test.each(['state', 'remainingMs'] as const)('reading %s is enough to find the loss', async (property) => {
    const { clock, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 1_000 })
    const { signal } = lease
    clock.block(VALID_OF_1000)
    expect(lease[property]).toBe(property === 'state' ? 'lost' : 0)
    expect(signal.aborted).toBe(true)
  })

  test('a hold that expired by the clock blocks no acquire in this process', async () => {
    const { clock, store, locks } = harness()
    await locks.lock('a').acquire({ ttlMs: 1_000, renew: false })
    clock.block(2_000)
    const next = watch(locks.lock('a').tryAcquire())
    await settled()
    expect(next.value).not.toBeNull()
    expect(store.calls.attempt).toBe(2)
  })

  test('a grant shorter than asked for counts as granted, and the renewal stretches it', async () => {
    const { clock, store, locks } = harness({ store: { grantTtlMs: 300 } })
    const lease = await locks.lock('a').acquire({ ttlMs: 30_000 })
    expect(lease.remainingMs).toBe(295)
    await clock.advance(100)
    expect(store.renewals[0]?.[0]?.ttlMs).toBe(30_000)
    expect(lease.remainingMs).toBe(29_698)
  })
})

describe('the signal of a lease', () => {
  test('aborts at the deadline with the LockError, hung store or not', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 1_000 })
    const { signal } = lease
    store.always('renew', hang)
    store.always('release', hang)
    await clock.advance(VALID_OF_1000 - 1)
    expect(signal.aborted).toBe(false)
    await clock.advance(1)
    expect(signal.aborted).toBe(true)
    expect(isLockError(signal.reason, 'LOCK_LOST')).toBe(true)
  })

  test('is one object, also when first asked for after the loss', async () => {
    const { clock, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 1_000, renew: false })
    await clock.advance(1_000)
    expect(lease.signal.aborted).toBe(true)
    expect(codeOf(lease.signal.reason)).toBe('LOCK_LOST')
    expect(lease.signal).toBe(lease.signal)
  })

  test('does not abort on release, nor later', async () => {
    const { clock, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 1_000 })
    const { signal } = lease
    await lease.release()
    await clock.advance(5_000)
    expect(signal.aborted).toBe(false)
    expect(lease.signal.aborted).toBe(false)
  })

  test('aborts also when it is the release that finds the lock gone', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    const { signal } = lease
    store.free('a')
    store.seize('a')
    await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
    expect(lease.state).toBe('lost')
    expect(signal.aborted).toBe(true)
  })
})

describe('a loss', () => {
  test('that the store confirms is at once', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    store.seize('a')
    await clock.advance(300)
    expect(lease.state).toBe('lost')
    expect(lease.signal.aborted).toBe(true)
    expect(store.calls.release).toBe(0)
  })

  test('that only the clock knows of frees the store, where it still holds the name', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 1_000, renew: false })
    await clock.advance(VALID_OF_1000)
    expect(lease.state).toBe('lost')
    expect(store.calls.release).toBe(1)
    expect(store.holder('a')).toBeUndefined()
  })

  test('leaves a lock delay to the store', async () => {
    const { clock, store, locks } = harness()
    await locks.lock('a').acquire({ ttlMs: 1_000, renew: false, lockDelayMs: 5_000 })
    await clock.advance(2_000)
    expect(store.calls.release).toBe(0)
  })

  test('lets the next waiter go on', async () => {
    const { clock, locks } = harness()
    const first = await locks.lock('a').acquire({ ttlMs: 1_000, renew: false })
    const second = watch(locks.lock('a').acquire())
    await clock.advance(1_500)
    expect(second.state).toBe('fulfilled')
    expect(second.value?.fence).toBeGreaterThan(first.fence)
  })

  test('voids every lease of a re-entered hold', async () => {
    const { clock, locks } = harness()
    const options = { ttlMs: 1_000, renew: false, owner: 'me' }
    const leases = [await locks.lock('a').acquire(options), await locks.lock('a').acquire(options)]
    await clock.advance(1_000)
    expect(leases.map((lease) => lease.state)).toEqual(['lost', 'lost'])
  })
})
