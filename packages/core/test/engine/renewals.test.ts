import { expect, test } from 'vitest'
import { harness } from '../support/harness.ts'
import { fail, hang } from '../support/steps.ts'

test('10,000 holds are renewed by one timer in a few calls', async () => {
  const { clock, store, locks } = harness()
  const leases = await Promise.all(Array.from({ length: 10_000 }, (_, i) => locks.lock(`n${i}`).acquire()))
  expect(clock.armed).toBe(1)
  await clock.advance(30_000)
  expect(store.calls.renew).toBeLessThanOrEqual(4)
  expect(store.renewals[0]).toHaveLength(10_000)
  expect(leases.every(({ state }) => state === 'held')).toBe(true)
  expect(clock.armed).toBe(1)
  expect(clock.created).toBeLessThan(20)
})

test('holds taken one after the other come together in the same calls', async () => {
  const { clock, store, locks } = harness()
  for (let i = 0; i < 100; i += 1) {
    await locks.lock(`n${i}`).acquire({ ttlMs: 3_000 })
    await clock.advance(10)
  }
  const before = store.calls.renew
  await clock.advance(10_000)
  expect(store.calls.renew - before).toBeLessThan(150)
  expect(store.renewals.flat().length).toBeGreaterThan(900)
})

test('an outcome concerns its own hold only', async () => {
  const { clock, store, locks } = harness()
  const leases = await Promise.all(['a', 'b', 'c'].map((name) => locks.lock(name).acquire({ ttlMs: 900 })))
  store.seize('b')
  await clock.advance(300)
  expect(store.calls.renew).toBe(1)
  expect(leases.map(({ state }) => state)).toEqual(['held', 'lost', 'held'])
})

test('one batch that fails leaves every deadline where it was', async () => {
  const { clock, store, locks } = harness()
  const leases = await Promise.all(['a', 'b'].map((name) => locks.lock(name).acquire({ ttlMs: 900 })))
  store.always('renew', fail())
  await clock.advance(400)
  expect(leases.map(({ state, remainingMs }) => [state, remainingMs])).toEqual([
    ['jeopardy', 489],
    ['jeopardy', 489],
  ])
})

test('a hung batch does not keep later holds from their renewal', async () => {
  const { clock, store, locks } = harness()
  await locks.lock('a').acquire({ ttlMs: 900 })
  store.next('renew', hang)
  await clock.advance(300)
  const later = await locks.lock('b').acquire({ ttlMs: 300 })
  await clock.advance(2_000)
  expect(later.state).toBe('held')
})

test('a released hold is no longer renewed, even if it was due in the same tick', async () => {
  const { clock, store, locks } = harness()
  const lease = await locks.lock('a').acquire({ ttlMs: 900 })
  clock.block(300)
  const advanced = clock.advance(0)
  const released = lease.release()
  await Promise.all([advanced, released])
  await clock.advance(5_000)
  expect(store.calls.renew).toBe(0)
})

test('an adapter that reports its session puts every hold in jeopardy, back, and ends them', async () => {
  const { store, locks } = harness()
  const leases = await Promise.all(['a', 'b'].map((name) => locks.lock(name).acquire()))
  const states = (): string[] => leases.map(({ state }) => state)
  store.host?.report('jeopardy')
  expect(states()).toEqual(['jeopardy', 'jeopardy'])
  store.host?.report('ok')
  expect(states()).toEqual(['held', 'held'])
  store.host?.report('lost', store.attempts[0]?.attemptId)
  expect(states()).toEqual(['lost', 'held'])
  store.host?.report('lost', 'unknown')
  expect(states()).toEqual(['lost', 'held'])
  store.host?.report('lost')
  expect(states()).toEqual(['lost', 'lost'])
  expect(leases.map(({ signal }) => signal.aborted)).toEqual([true, true])
})
