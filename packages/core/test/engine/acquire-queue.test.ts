import { describe, expect, test } from 'vitest'
import type { Lease } from '../../src/index.ts'
import { codeOf, harness, reasonOf, watch } from '../support/harness.ts'
import { gate, hang } from '../support/steps.ts'
import { settled } from '../support/virtual-clock.ts'

describe('the queue inside a process', () => {
  test('serves in the order of the calls', async () => {
    const { clock, locks } = harness()
    const order: number[] = []
    const tasks = Array.from({ length: 20 }, async (_, i) => {
      const lease = await locks.lock('a').acquire()
      order.push(i)
      await lease.release()
    })
    await clock.advance(0)
    await Promise.all(tasks)
    expect(order).toEqual(tasks.map((_, i) => i))
  })

  test('shows the store one contender at a time', async () => {
    const { clock, store, locks } = harness()
    store.seize('a')
    const waiters = Array.from({ length: 50 }, () => watch(locks.lock('a').acquire()))
    await clock.advance(2_000)
    expect(new Set(store.attempts.map((request) => request.attemptId)).size).toBe(1)
    expect(waiters.every(({ state }) => state === 'pending')).toBe(true)
  })

  test('hands over without asking the store in between: one attempt and one release each', async () => {
    const { clock, store, locks } = harness()
    const done = Promise.all(Array.from({ length: 50 }, () => locks.with('a', () => undefined)))
    await clock.advance(0)
    await done
    expect([store.calls.attempt, store.calls.release]).toEqual([50, 50])
  })

  test('gives two holds of one name different fences, in rising order', async () => {
    const { locks } = harness()
    const fences = await Promise.all(Array.from({ length: 5 }, () => locks.with('a', ({ fence }) => fence)))
    expect(fences).toEqual([...fences].sort((a, b) => (a < b ? -1 : 1)))
    expect(new Set(fences).size).toBe(5)
  })

  test('does not let one name wait for another', async () => {
    const { store, locks } = harness()
    store.next('attempt', hang)
    void watch(locks.lock('a').acquire())
    const other = watch(locks.lock('b').acquire())
    await settled()
    expect(other.state).toBe('fulfilled')
  })

  test('waits for a release under way before the next one tries', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    const { step, open } = gate()
    store.next('release', step)
    void watch(lease.release())
    const next = watch(locks.lock('a').tryAcquire())
    await settled()
    expect(store.calls.attempt).toBe(1)
    open()
    await settled()
    expect(next.value?.state).toBe('held')
  })

  test('a waiter of the same explicit owner joins the hold that comes up, the others wait on', async () => {
    const { clock, store, locks } = harness()
    store.seize('a')
    const mine = [1, 2, 3].map(() => watch(locks.lock('a').acquire({ owner: 'me' })))
    const yours = watch(locks.lock('a').acquire({ owner: 'you' }))
    await clock.advance(100)
    store.free('a')
    await clock.advance(2_000)
    expect(mine.map(({ state }) => state)).toEqual(['fulfilled', 'fulfilled', 'fulfilled'])
    expect(new Set(mine.map(({ value }) => value?.fence)).size).toBe(1)
    expect(yours.state).toBe('pending')
    for (const { value } of mine) await value?.release()
    await clock.advance(2_000)
    expect(yours.state).toBe('fulfilled')
  })

  test('a waiter at the store joins the hold that a try of the same explicit owner got meanwhile', async () => {
    const { clock, store, locks } = harness()
    store.seize('a')
    const head = watch(locks.lock('a').acquire({ owner: 'me' }))
    await settled()
    store.free('a')
    const tries = [1, 2].map(() => watch(locks.lock('a').tryAcquire({ owner: 'me' })))
    await clock.advance(2_000)
    expect([head, ...tries].map(({ value }) => value?.fence)).toEqual([2n, 2n, 2n])
    for (const { value } of [head, ...tries]) await value?.release()
    await clock.advance(2_000)
    expect(store.holder('a')).toBeUndefined()
    const { totalCalls } = store
    await clock.advance(60_000)
    expect(store.totalCalls).toBe(totalCalls)
  })

  test('remembers nothing of a name that is free again', async () => {
    const { clock, store, locks } = harness()
    const leases: Lease[] = []
    for (let i = 0; i < 100; i += 1) leases.push(await locks.lock(`n${i}`).acquire())
    for (const lease of leases) await lease.release()
    await clock.advance(60_000)
    expect(clock.armed).toBe(0)
    expect(store.calls.renew).toBe(0)
  })

  test('an abort in the queue concerns that waiter alone, and costs the store nothing', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    const controller = new AbortController()
    const aborted = watch(locks.lock('a').acquire({ signal: controller.signal }))
    const patient = watch(locks.lock('a').acquire())
    await settled()
    controller.abort(new Error('not needed any more'))
    await settled()
    expect(aborted.error).toBe(controller.signal.reason)
    await lease.release()
    await clock.advance(0)
    expect(patient.state).toBe('fulfilled')
    expect([store.calls.attempt, store.calls.withdraw]).toEqual([2, 0])
  })
})

describe('tryAcquire', () => {
  test('is null when this process holds the lock, without a round trip', async () => {
    const { store, locks } = harness()
    await locks.lock('a').acquire()
    expect(await locks.lock('a').tryAcquire()).toBeNull()
    expect(store.calls.attempt).toBe(1)
  })

  test('is null when another client holds it, after one attempt and no withdrawal', async () => {
    const { store, locks } = harness()
    store.seize('a')
    expect(await locks.lock('a').tryAcquire()).toBeNull()
    expect([store.calls.attempt, store.calls.withdraw]).toEqual([1, 0])
    expect(store.attempts[0]?.willWait).toBe(false)
  })

  test('acquire that may not wait says LOCK_TIMEOUT, with the holder', async () => {
    const { store, locks } = harness()
    store.seize('a')
    const error = await reasonOf(locks.lock('a').acquire({ waitMs: 0 }))
    expect(error).toMatchObject({ code: 'LOCK_TIMEOUT', lock: 'a', holder: { owner: 'stranger' } })
  })

  test('next to an attempt under way learns its outcome: null when that one wins', async () => {
    const { store, locks } = harness()
    const { step, open } = gate()
    store.next('attempt', step)
    const first = watch(locks.lock('a').tryAcquire())
    const second = watch(locks.lock('a').tryAcquire())
    await settled()
    expect(second.state).toBe('pending')
    open()
    await settled()
    expect(first.value?.state).toBe('held')
    expect([second.state, second.value]).toEqual(['fulfilled', null])
    expect(store.calls.attempt).toBe(1)
  })

  test('next to an attempt under way tries itself when that one fails', async () => {
    const { clock, store, locks } = harness()
    store.next('attempt', () => Promise.reject(new Error('down')))
    const first = watch(locks.lock('a').tryAcquire())
    const second = watch(locks.lock('a').tryAcquire())
    await settled()
    expect(second.value?.state).toBe('held')
    await clock.advance(1_000)
    expect(first.value).toBeNull()
  })

  test('behind one that found the lock held gets a newer answer', async () => {
    const { store, locks } = harness()
    store.seize('a')
    const { step, open } = gate()
    store.next('attempt', step, hang)
    const first = watch(locks.lock('a').tryAcquire())
    void watch(locks.lock('a').acquire())
    await settled()
    open()
    await settled()
    expect(first.value).toBeNull()
    expect(store.calls.attempt).toBe(2)
    store.free('a')
    const late = watch(locks.lock('a').tryAcquire())
    await settled()
    expect(late.state).toBe('pending')
  })

  test.each([
    ['a try', 0],
    ['one that waits', 60_000],
  ])('does not take an answer of before the call, given to %s', async (_, waitMs) => {
    const { clock, store, locks } = harness()
    store.seize('a')
    const { step, open } = gate({ acted: true })
    store.next('attempt', step)
    const first = watch(locks.lock('a').acquire({ waitMs }))
    await clock.advance(1)
    store.free('a')
    const second = watch(locks.lock('a').tryAcquire())
    open()
    await settled()
    expect(second.value?.state).toBe('held')
    expect(first.state).toBe(waitMs === 0 ? 'rejected' : 'pending')
  })

  test('many at a time that find the lock taken cost two attempts', async () => {
    const { clock, store, locks } = harness()
    store.seize('a')
    const { step, open } = gate()
    store.next('attempt', step)
    const tries = [watch(locks.lock('a').tryAcquire())]
    await clock.advance(1)
    for (let i = 0; i < 50; i += 1) tries.push(watch(locks.lock('a').tryAcquire()))
    await clock.advance(1)
    open()
    await settled()
    expect(tries.every(({ state, value }) => state === 'fulfilled' && value === null)).toBe(true)
    expect(store.calls.attempt).toBe(2)
  })

  test('many of them on a silent store all end within a few storeTimeoutMs', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 100 } })
    store.always('attempt', hang)
    store.always('withdraw', hang)
    const tries = Array.from({ length: 10 }, () => watch(locks.lock('a').tryAcquire()))
    await clock.advance(300)
    expect(tries.map(({ error }) => codeOf(error))).toEqual(tries.map(() => 'LOCK_UNAVAILABLE'))
  })
})
