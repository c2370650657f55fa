import assert from 'node:assert/strict'
import type { Rule } from '../rule.ts'
import { assertInTime, assertStillHeld, seenWaiting, eventOf, rejectsWith, soonFree } from './observe.ts'
import { assertRising } from './steps.ts'
import { waitingInLine } from './waiting-in-line.ts'

const reason = new Error('the caller has changed its mind')

export const waiting: readonly Rule[] = [
  {
    id: 'WAIT-1',
    title: 'without waiting, tryAcquire of a held lock returns null and acquire throws LOCK_TIMEOUT',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      assert.equal(await other.locks.lock(lock).tryAcquire(), null)
      await h.rejects(other.locks.lock(lock).acquire({ waitMs: 0 }), 'LOCK_TIMEOUT')
      await lease.release()
    },
  },
  {
    id: 'WAIT-2',
    title: 'a wait ends with LOCK_TIMEOUT when its time is over, not before, and leaves nothing behind',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const waitMs = h.ms(1_000)
      const start = performance.now()
      await h.rejects(other.locks.lock(lock).acquire({ waitMs }), 'LOCK_TIMEOUT')
      const waited = performance.now() - start
      assert.ok(waited >= waitMs - 1, `gave up after ${waited} ms of ${waitMs}`)
      const bound = { ms: waitMs + h.ms(2_000), waitsMs: waitMs, from: 'waitMs + 2 s' }
      await assertInTime('the wait ends', bound, waited)
      await lease.release()
      // The withdrawal may be under way, and its hold may appear for a moment.
      await soonFree(h, lock)
    },
  },
  {
    id: 'WAIT-3',
    title: 'retry.attempts limits the attempts at the store',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const { faults } = other
      // Waits between tries are short, so that the second try comes at once on every store.
      faults.inject('wait', 'fail')
      const retry = { attempts: 3, delayMs: 1, maxDelayMs: 5 }
      const outcome = other.locks.lock(lock).acquire({ waitMs: h.ms(20_000), retry })
      await assert.rejects(outcome)
      assert.equal(faults.calls.attempt, 3)
      await lease.release()
    },
  },
  {
    id: 'WAIT-4',
    title: 'an acquire aborted before it begins rejects with the reason and does not call the store',
    kind: 'required',
    async run(h) {
      const { locks, faults } = await h.client()
      const lock = locks.lock(h.name())
      const signal = AbortSignal.abort(reason)
      await rejectsWith(lock.acquire({ signal }), reason)
      await rejectsWith(lock.tryAcquire({ signal }), reason)
      assert.equal(faults.calls.attempt, 0)
    },
  },
  {
    id: 'WAIT-5',
    title: 'an acquire aborted while it waits rejects with the reason at once and leaves nothing behind',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const controller = new AbortController()
      const waits = eventOf(other, 'contended', lock)
      const outcome = other.locks.lock(lock).acquire({ waitMs: h.ms(20_000), signal: controller.signal })
      await seenWaiting(outcome, waits)
      const start = performance.now()
      controller.abort(reason)
      await rejectsWith(outcome, reason)
      await assertInTime('the abort', h.ms(1_000), performance.now() - start)
      await lease.release()
      await soonFree(h, lock)
    },
  },
  {
    id: 'WAIT-6',
    title: 'an abort after the grant does not touch the lease',
    kind: 'required',
    async run(h) {
      const { locks } = await h.client()
      const controller = new AbortController()
      const lease = await locks.lock(h.name()).acquire({ signal: controller.signal })
      controller.abort(reason)
      await new Promise((resolve) => setImmediate(resolve))
      await assertStillHeld(h, lease)
      assert.equal(lease.signal.aborted, false)
      await lease.release()
    },
  },
  {
    id: 'WAIT-8',
    title: 'tasks of one client are served in the order they asked',
    kind: 'required',
    async run(h) {
      const { locks } = await h.client()
      const lock = locks.lock(h.name())
      const order: number[] = []
      await Promise.all(
        Array.from({ length: 10 }, (_, n) => lock.with({ waitMs: h.ms(20_000) }, () => void order.push(n))),
      )
      assert.deepEqual(order, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    },
  },
  {
    id: 'WAIT-9',
    title: 'however many tasks of a client wait, one of them contends at the store',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const waits = eventOf(other, 'contended', lock)
      const tasks = Array.from({ length: 20 }, () =>
        other.locks.with(lock, { waitMs: h.ms(20_000) }, () => undefined),
      )
      await seenWaiting(Promise.race(tasks), waits)
      const { waiters } = await holder.locks.inspect(lock)
      assert.ok(waiters === undefined || waiters <= 1, `${waiters} waiters at the store`)
      await lease.release()
      await Promise.all(tasks)
      assert.equal(other.faults.calls.release, 20)
    },
  },
  {
    id: 'WAIT-12',
    title: 'a waiter that gives up does not delay those behind it',
    kind: 'required',
    async run(h) {
      const [holder, fickle, patient] = [await h.client(), await h.client(), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const controller = new AbortController()
      const first = eventOf(fickle, 'contended', lock)
      const given = fickle.locks.lock(lock).acquire({ waitMs: h.ms(20_000), signal: controller.signal })
      await seenWaiting(given, first)
      const second = eventOf(patient, 'contended', lock)
      const turn = patient.locks.lock(lock).acquire({ waitMs: h.ms(20_000) })
      await seenWaiting(turn, second)
      controller.abort(reason)
      await rejectsWith(given, reason)
      await lease.release()
      const next = await turn
      assertRising(h, [lease.fence, next.fence])
      await next.release()
      // The withdrawal may be under way.
      await soonFree(h, lock)
    },
  },
  {
    id: 'WAIT-13',
    title: 'a lost wake-up delays a waiter by no more than the lease',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client({ ttlMs: h.ttlMs }), await h.client({ ttlMs: h.ttlMs })]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire({ renew: h.capabilities.kind !== 'lease' })
      other.faults.inject('wait', 'swallow-reply', 1)
      const waits = eventOf(other, 'contended', lock)
      const turn = other.locks.lock(lock).acquire({ waitMs: h.ttlMs * 10 })
      await seenWaiting(turn, waits)
      const start = performance.now()
      await lease.release()
      const next = await turn
      const waited = performance.now() - start
      assertRising(h, [lease.fence, next.fence])
      await assertInTime('granted', { ms: h.ttlMs * 2 + h.ms(2_000), from: '2 ttlMs + 2 s' }, waited)
    },
  },
  {
    id: 'WAIT-14',
    title: 'an abort that races the grant ends in one or the other, and leaves nothing behind',
    kind: 'stochastic',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      for (let round = 0; round < 30; round += 1) {
        const lease = await holder.locks.lock(lock).acquire({ waitMs: h.ms(10_000) })
        const controller = new AbortController()
        const waits = eventOf(other, 'contended', lock)
        const racing = other.locks.lock(lock).acquire({ waitMs: h.ms(10_000), signal: controller.signal })
        await seenWaiting(racing, waits)
        const released = lease.release()
        for (let turns = 0; turns < round % 6; turns += 1)
          await new Promise((resolve) => setImmediate(resolve))
        controller.abort(reason)
        const outcome = await racing.catch((error: unknown) => error)
        await released
        if (outcome === reason) continue
        const won = await racing
        await assertStillHeld(h, won)
        await won.release()
      }
      // A withdrawal may be under way, and its hold may appear for a moment. `close` waits for both.
      await other.locks.close()
      await soonFree(h, lock, h.ms(5_000))
    },
  },
  ...waitingInLine,
]
