import { describe, expect, test } from 'vitest'
import { codeOf, harness, reasonOf, watch } from '../support/harness.ts'
import { fail, gate, hang, slow } from '../support/steps.ts'
import { settled } from '../support/virtual-clock.ts'

describe('renewal', () => {
  test('happens every third of the ttl, for as long as the lease lives', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    await clock.advance(9_000)
    expect(store.calls.renew).toBe(30)
    await lease.release()
    await clock.advance(9_000)
    expect(store.calls.renew).toBe(30)
  })

  test('the shortest ttl makes no storm', async () => {
    const { clock, store, locks } = harness()
    await locks.lock('a').acquire({ ttlMs: 10 })
    await clock.advance(1_000)
    expect(store.calls.renew).toBeLessThanOrEqual(301)
  })

  test('never happens to a fixed lease', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900, renew: false })
    await clock.advance(2_000)
    expect(store.calls.renew).toBe(0)
    expect(lease.state).toBe('lost')
  })

  test('stretches a fixed lease that was granted for less, once and to its own length', async () => {
    const { clock, store, locks } = harness({ store: { grantTtlMs: 300 } })
    const lease = await locks.lock('a').acquire({ ttlMs: 900, renew: false })
    await clock.advance(400)
    expect(store.renewals.map((batch) => batch.map(({ ttlMs }) => ttlMs))).toEqual([[800]])
    expect(lease.remainingMs).toBeGreaterThan(400)
    await clock.advance(600)
    expect(store.calls.renew).toBe(1)
    expect(lease.state).toBe('lost')
  })

  test('stops after maxHoldMs: jeopardy, then lost', async () => {
    const { clock, store, locks } = harness()
    const jeopardy: unknown[] = []
    locks.on('jeopardy', (event) => jeopardy.push(event.cause))
    const lease = await locks.lock('a').acquire({ ttlMs: 900, maxHoldMs: 1_000 })
    await clock.advance(1_200)
    expect(store.calls.renew).toBe(3)
    expect(lease.state).toBe('jeopardy')
    expect(jeopardy).toHaveLength(1)
    await clock.advance(900)
    expect(lease.state).toBe('lost')
    expect(store.calls.renew).toBe(3)
  })

  test.each([true, false])(
    'stretches a short claim to its ttl although maxHoldMs ends before the first renewal (renew: %s)',
    async (renew) => {
      const { clock, store, locks } = harness({ store: { grantTtlMs: 300 } })
      const lease = await locks.lock('a').acquire({ ttlMs: 900, maxHoldMs: 50, renew })
      await clock.advance(800)
      expect(lease.state).not.toBe('lost')
      await clock.advance(100)
      expect(lease.state).toBe('lost')
      expect(store.renewals.map((batch) => batch.map(({ ttlMs }) => ttlMs))).toEqual([[800]])
    },
  )

  test('that fails puts the lease in jeopardy, and one that works takes it out', async () => {
    const { clock, store, locks } = harness()
    const events: number[] = []
    locks.on('jeopardy', (event) => events.push(event.remainingMs))
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    const { signal } = lease
    store.next('renew', fail(), fail())
    await clock.advance(300)
    expect(lease.state).toBe('jeopardy')
    lease.assertHeld()
    await clock.advance(200)
    expect(lease.state).toBe('held')
    expect(events).toEqual([589])
    expect(signal.aborted).toBe(false)
    expect(store.calls.renew).toBe(3)
  })

  test('that hangs puts the lease in jeopardy, is sent again, and the first answer counts', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    store.next('renew', hang)
    await clock.advance(599)
    expect(lease.state).toBe('held')
    await clock.advance(1)
    expect(store.calls.renew).toBe(2)
    expect(lease.state).toBe('held')
    expect(lease.remainingMs).toBe(889)
  })

  test('that hung once is no doubt about those that are confirmed after it', async () => {
    const { clock, store, locks } = harness()
    let events = 0
    locks.on('jeopardy', () => (events += 1))
    await locks.lock('a').acquire({ ttlMs: 900 })
    store.next('renew', hang)
    await clock.advance(5_000)
    expect(events).toBe(1)
  })

  test('that always hangs is repeated a few times only', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    store.always('renew', hang)
    await clock.advance(5_000)
    expect(lease.state).toBe('lost')
    expect(store.calls.renew).toBeLessThanOrEqual(3)
  })

  test('that always fails is repeated a few times only', async () => {
    const { clock, store, locks } = harness()
    await locks.lock('a').acquire({ ttlMs: 1_200 })
    store.always('renew', fail())
    await clock.advance(5_000)
    expect(store.calls.renew).toBeLessThanOrEqual(10)
  })

  test('confirmed after the deadline does not bring the lease back', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    store.always('renew', slow(0, 700))
    await clock.advance(1_000)
    expect(lease.state).toBe('lost')
    await clock.advance(1_000)
    expect(lease.state).toBe('lost')
    expect(store.holder('a')).toBeUndefined()
  })

  test('an old renewal that fails late puts nothing in doubt', async () => {
    const { clock, store, locks } = harness()
    let events = 0
    locks.on('jeopardy', () => (events += 1))
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    store.next('renew', async (_, time) => {
      await new Promise<void>((resolve) => time.timer(350, resolve))
      throw new Error('late')
    })
    await clock.advance(620)
    expect(store.calls.renew).toBe(2)
    expect(lease.state).toBe('held')
    expect(events).toBe(1)
    await clock.advance(40)
    expect(lease.state).toBe('held')
    expect(events).toBe(1)
  })

  test('an old renewal that succeeds late moves no deadline back', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    store.next('renew', slow(0, 350))
    await clock.advance(660)
    expect(lease.remainingMs).toBe(600 + 889 - 660)
  })
})

describe('extend', () => {
  test('to a longer ttl moves the deadline once confirmed, and renewals keep to it', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    const { step, open } = gate()
    store.next('renew', step)
    const extended = watch(lease.extend(9_000))
    await settled()
    expect(lease.remainingMs).toBe(889)
    open()
    await settled()
    expect(extended.state).toBe('fulfilled')
    expect(lease.remainingMs).toBe(8_908)
    await clock.advance(3_000)
    expect(store.renewals.at(-1)?.[0]?.ttlMs).toBe(9_000)
    expect(store.calls.renew).toBe(2)
  })

  test('to a shorter ttl never brings the end forward, and later renewals keep to it', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 9_000 })
    await lease.extend(900)
    expect(lease.remainingMs).toBe(8_908)
    await clock.advance(300)
    expect(store.renewals.at(-1)?.[0]?.ttlMs).toBe(900)
  })

  test('without a ttl renews now', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900, renew: false })
    await clock.advance(500)
    await lease.extend()
    expect(lease.remainingMs).toBe(889)
    expect(store.renewals[0]?.[0]?.ttlMs).toBe(900)
  })

  test('of a silent store ends after storeTimeoutMs, and the old deadline stands', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 100 } })
    const lease = await locks.lock('a').acquire({ ttlMs: 900, renew: false })
    store.next('renew', hang)
    const extended = watch(lease.extend(9_000))
    await clock.advance(100)
    expect(codeOf(extended.error)).toBe('LOCK_UNAVAILABLE')
    expect(lease.remainingMs).toBe(789)
  })

  test('of a lost lease says so', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    store.seize('a')
    expect(codeOf(await reasonOf(lease.extend()))).toBe('LOCK_LOST')
    expect(lease.state).toBe('lost')
    expect(codeOf(await reasonOf(lease.extend()))).toBe('LOCK_LOST')
    expect(store.calls.renew).toBe(1)
  })

  test('of a released lease says so', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    await lease.release()
    expect(codeOf(await reasonOf(lease.extend()))).toBe('LOCK_NOT_OWNED')
    expect(store.calls.renew).toBe(0)
  })

  test('that is overtaken by a release does not claim to have worked', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    const { step, open } = gate({ acted: true })
    store.next('renew', step)
    const extended = watch(lease.extend())
    await lease.release()
    open()
    await settled()
    expect(codeOf(extended.error)).toBe('LOCK_NOT_OWNED')
  })

  test('counts when its answer comes after that to a later, shorter one', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900, renew: false })
    store.next('renew', slow(0, 100))
    const long = watch(lease.extend(60_000))
    await clock.advance(10)
    await lease.extend(900)
    await clock.advance(90)
    expect(long.state).toBe('fulfilled')
    expect(lease.remainingMs).toBe(59_298)
    await clock.advance(10_000)
    expect(lease.state).toBe('held')
  })

  test('a renewal under way never gives more than the ttl it asked for', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 100 } })
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    const { step, open } = gate({ acted: true })
    store.next('renew', step, hang)
    await clock.advance(300)
    const extended = watch(lease.extend(600_000))
    await settled()
    open()
    await clock.advance(150)
    expect(codeOf(extended.error)).toBe('LOCK_UNAVAILABLE')
    expect(clock.now() + lease.remainingMs).toBeLessThan(store.expiresAt('a') ?? 0)
  })
})
