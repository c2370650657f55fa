import { block } from '@locks/core/conformance'
import { expect, test } from 'vitest'
import { createLocks } from '../../src/index.ts'
import { systemClock } from '../../src/adapter/index.ts'
import type { Clock } from '../../src/index.ts'
import { harness, thrownCode } from '../support/harness.ts'
import type { Harness } from '../support/harness.ts'
import { ScriptedStore } from '../support/scripted-adapter.ts'

const connections = (): Harness => harness({ store: { capabilities: { kind: 'connection' } } })

/** The end of an iteration of the real event loop: timers come next, then sockets. */
const endOfTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('a blocked event loop leaves the hold of a connection in doubt, until it has turned', async () => {
  const { clock, locks } = connections()
  const lease = await locks.lock('a').acquire()
  clock.block(500)
  lease.assertHeld()
  clock.block(1)
  expect([lease.state, lease.remainingMs]).toEqual(['jeopardy', 0])
  expect(() => lease.assertHeld()).toThrow(/has not read the connection that holds it for 501 ms/)
  expect(thrownCode(() => lease.assertHeld())).toBe('LOCK_UNAVAILABLE')
  await clock.advance(0)
  expect(lease.state).toBe('held')
  expect(lease.remainingMs).toBeGreaterThan(0)
  lease.assertHeld()
  await lease.release()
})

test('an answer of the store ends the doubt, and one that it is lost is a loss', async () => {
  const { clock, store, locks } = connections()
  const lease = await locks.lock('a').acquire()
  clock.block(1_000)
  await lease.extend()
  lease.assertHeld()
  clock.block(1_000)
  store.free('a')
  await expect(lease.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' })
  expect(lease.state).toBe('lost')
})

test('a hold that is over is lost or released, not in doubt', async () => {
  const { clock, locks } = connections()
  const [lost, released] = [await locks.lock('a').acquire(), await locks.lock('b').acquire()]
  await released.release()
  clock.block(60_000)
  expect([lost.state, released.state]).toEqual(['lost', 'released'])
  expect(thrownCode(() => lost.assertHeld())).toBe('LOCK_LOST')
  expect(thrownCode(() => released.assertHeld())).toBe('LOCK_NOT_OWNED')
})

test.each(['lease', 'session'] as const)('a %s is valid by its clock alone', async (kind) => {
  const { clock, locks } = harness({ store: { capabilities: { kind } } })
  const lease = await locks.lock('a').acquire()
  clock.block(1_000)
  lease.assertHeld()
  expect(lease.state).toBe('held')
})

test('a wait for a grant, however long, is no stall', async () => {
  const { clock, locks } = connections()
  const first = await locks.lock('a').acquire()
  const second = locks.lock('a').acquire({ waitMs: 20_000 })
  await clock.advance(5_000)
  await first.release()
  const lease = await second
  lease.assertHeld()
  expect(lease.state).toBe('held')
})

test('the meter runs while there are locks, and not otherwise', async () => {
  const { clock, locks } = connections()
  expect(clock.armed).toBe(0)
  const lease = await locks.lock('a').acquire()
  const before = clock.created
  await clock.advance(250)
  expect(clock.created - before).toBe(10)
  await lease.release()
  await clock.advance(60_000)
  const idle = clock.created
  await clock.advance(60_000)
  expect(clock.created).toBe(idle)
  // A stall without a hold does not put later holds in doubt.
  clock.block(10_000)
  const next = await locks.lock('a').acquire()
  next.assertHeld()
  await locks.close()
  expect(clock.armed).toBe(0)
})

test('timers that run before the sockets are read do not end the doubt', async () => {
  let poll = (): void => undefined
  const { clock, store } = connections()
  const held: Clock = {
    now: () => clock.now(),
    timer: (ms, fire) => clock.timer(ms, fire),
    random: () => clock.random(),
    afterPoll: (done) => void (poll = done),
  }
  const locks = createLocks(store.factory, { clock: held })
  const lease = await locks.lock('a').acquire()
  clock.block(1_000)
  await clock.advance(0)
  expect(lease.state).toBe('jeopardy')
  const stale = poll
  // Callbacks took long before the poll: what arrived meanwhile may still be unread.
  clock.block(1_000)
  stale()
  expect(lease.state).toBe('jeopardy')
  await clock.advance(0)
  poll()
  expect(lease.state).toBe('held')
})

test('on the system clock: in doubt after a stall, also for a timer that is due, and not for long', async () => {
  const store = new ScriptedStore({ capabilities: { kind: 'connection' } })
  const locks = createLocks(store.factory, { clock: systemClock })
  const lease = await locks.lock('a').acquire()
  await endOfTurn()
  lease.assertHeld()
  const early = new Promise<string | undefined>((resolve) => {
    // Due during the stall: it runs before anything is read.
    setTimeout(() => resolve(thrownCode(() => lease.assertHeld())), 100)
  })
  block(800)
  expect(thrownCode(() => lease.assertHeld())).toBe('LOCK_UNAVAILABLE')
  expect(await early).toBe('LOCK_UNAVAILABLE')
  await expect.poll(() => lease.state, { timeout: 5_000, interval: 5 }).toBe('held')
  await locks.close()
})
