import { describe, expect, test } from 'vitest'
import { codeOf, harness, reasonOf, thrownCode, watch } from '../support/harness.ts'
import { fail, gate, hang, loseReply } from '../support/steps.ts'
import { settled } from '../support/virtual-clock.ts'

describe('release', () => {
  test('frees the name at the store, and the lease says so', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    await lease.release()
    expect(store.holder('a')).toBeUndefined()
    expect(lease.state).toBe('released')
    expect(lease.remainingMs).toBe(0)
    expect(thrownCode(() => lease.assertHeld())).toBe('LOCK_NOT_OWNED')
  })

  test('once too often is LOCK_NOT_OWNED and never reaches the store', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    await lease.release()
    const successor = await locks.lock('a').acquire()
    expect(codeOf(await reasonOf(lease.release()))).toBe('LOCK_NOT_OWNED')
    expect(store.calls.release).toBe(1)
    expect(successor.state).toBe('held')
  })

  test('asked for twice at the same time is one release', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    await Promise.all([lease.release(), lease.release()])
    expect(store.calls.release).toBe(1)
  })

  test('ends the lease at once, even if the store is slow or fails', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    store.next('release', hang)
    void watch(lease.release())
    expect(lease.state).toBe('released')
    expect(thrownCode(() => lease.assertHeld())).toBe('LOCK_NOT_OWNED')
  })

  test('of a lost lease is LOCK_LOST, each time, and never frees the successor', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900, renew: false })
    await clock.advance(900)
    const successor = await locks.lock('a').acquire()
    const { release } = store.calls
    for (const _ of [1, 2]) expect(codeOf(await reasonOf(lease.release()))).toBe('LOCK_LOST')
    expect(store.calls.release).toBe(release)
    expect(successor.state).toBe('held')
  })

  test('that finds another holder is LOCK_LOST', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    store.seize('a')
    expect(codeOf(await reasonOf(lease.release()))).toBe('LOCK_LOST')
    expect(store.holder('a')).toBe('stranger:a')
  })

  test('that finds the name free, because its hold was broken meanwhile, is LOCK_LOST', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    const { signal } = lease
    store.free('a')
    expect(codeOf(await reasonOf(lease.release()))).toBe('LOCK_LOST')
    expect(lease.state).toBe('lost')
    expect(signal.aborted).toBe(true)
    const inside = locks.lock('b').with(() => store.free('b'))
    expect(codeOf(await reasonOf(inside))).toBe('LOCK_LOST')
  })

  test('by close, of a hold that was broken meanwhile, does not keep the client from closing', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    store.free('a')
    await locks.close()
    expect(lease.signal.aborted).toBe(true)
    expect(store.log.at(-1)).toBe('close')
  })

  test('whose reply was lost succeeds by itself', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    store.next('release', loseReply())
    const released = watch(lease.release())
    await clock.advance(1_000)
    expect(released.state).toBe('fulfilled')
    expect(store.calls.release).toBe(2)
  })

  test('whose reply was lost succeeds although a successor came meanwhile', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    store.next('release', loseReply())
    const released = watch(lease.release())
    await settled()
    store.seize('a')
    await clock.advance(1_000)
    expect(released.state).toBe('fulfilled')
    expect(store.holder('a')).toBe('stranger:a')
  })

  test('that the store does not confirm is LOCK_UNAVAILABLE within storeTimeoutMs, and can be repeated', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 500 } })
    const lease = await locks.lock('a').acquire()
    store.always('release', fail())
    const first = watch(lease.release())
    await clock.advance(500)
    expect(codeOf(first.error)).toBe('LOCK_UNAVAILABLE')
    expect(lease.state).toBe('released')
    store.always('release', hang)
    const second = watch(lease.release())
    await clock.advance(500)
    expect(codeOf(second.error)).toBe('LOCK_UNAVAILABLE')
    store.always('release')
    await lease.release()
    expect(store.holder('a')).toBeUndefined()
    expect(codeOf(await reasonOf(lease.release()))).toBe('LOCK_NOT_OWNED')
  })

  test('repeated after the name went to another holder changes nothing', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 500 } })
    const lease = await locks.lock('a').acquire()
    store.always('release', hang)
    void watch(lease.release())
    await clock.advance(500)
    store.always('release')
    store.seize('a')
    await lease.release()
    expect(store.holder('a')).toBe('stranger:a')
  })

  test('ends in bounded tries while the store keeps failing', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    store.always('release', fail())
    void watch(lease.release())
    await clock.advance(60_000)
    expect(store.calls.release).toBeLessThan(60)
    expect(clock.keepsAlive).toBe(false)
  })
})

describe('re-entry by explicit owner', () => {
  const me = { owner: 'me' }

  test('costs no round trip, keeps the fence, and the last release frees', async () => {
    const { store, locks } = harness()
    const first = await locks.lock('a').acquire(me)
    const calls = store.totalCalls
    const second = await locks.lock('a').tryAcquire(me)
    expect(second?.fence).toBe(first.fence)
    expect(store.totalCalls).toBe(calls)
    await first.release()
    expect(first.state).toBe('released')
    expect(second?.state).toBe('held')
    expect(store.calls.release).toBe(0)
    expect(codeOf(await reasonOf(first.release()))).toBe('LOCK_NOT_OWNED')
    await second?.release()
    expect(store.holder('a')).toBeUndefined()
  })

  test('does not extend to another owner, nor to none, nor to another client', async () => {
    const { store, locks } = harness()
    await locks.lock('a').acquire(me)
    expect(await locks.lock('a').tryAcquire({ owner: 'you' })).toBeNull()
    expect(await locks.lock('a').tryAcquire()).toBeNull()
    expect(store.calls.attempt).toBe(1)
  })

  test('is no longer possible when the last release is under way', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire(me)
    const { step, open } = gate()
    store.next('release', step)
    const released = watch(lease.release())
    const again = watch(locks.lock('a').acquire(me))
    await settled()
    expect(again.state).toBe('pending')
    open()
    await settled()
    expect(released.state).toBe('fulfilled')
    expect(again.value?.fence).toBeGreaterThan(lease.fence)
  })
})

describe('disposal', () => {
  test('releases once', async () => {
    const { store, locks } = harness()
    {
      await using lease = await locks.lock('a').acquire()
      lease.assertHeld()
    }
    expect(store.holder('a')).toBeUndefined()
    expect(store.calls.release).toBe(1)
  })

  test('after a release does nothing', async () => {
    const { store, locks } = harness()
    {
      await using lease = await locks.lock('a').acquire()
      await lease.release()
    }
    expect(store.calls.release).toBe(1)
  })

  test('throws a loss that was not reported before, and nothing else', async () => {
    const { clock, locks } = harness()
    const untold = await locks.lock('a').acquire({ ttlMs: 900, renew: false })
    const told = await locks.lock('b').acquire({ ttlMs: 900, renew: false })
    await clock.advance(900)
    expect(codeOf(await reasonOf(untold[Symbol.asyncDispose]()))).toBe('LOCK_LOST')
    expect(codeOf(await reasonOf(told.release()))).toBe('LOCK_LOST')
    await told[Symbol.asyncDispose]()
  })
})
