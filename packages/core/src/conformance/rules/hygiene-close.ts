import assert from 'node:assert/strict'
import { isLockError } from '../../adapter/lock-error.ts'
import { createLocks } from '../../api/locks.ts'
import { faulty } from '../faulty-adapter.ts'
import type { Rule } from '../rule.ts'
import { seenWaiting, eventOf, inTime, lossOf, soonFree } from './observe.ts'

/** How a client ends. */
export const closing: readonly Rule[] = [
  {
    id: 'HYG-2',
    title: 'close ends waiters with LOCK_CLOSED and releases what is held',
    kind: 'required',
    async run(h) {
      const [closed, other] = [await h.client(), await h.client()]
      const [held, taken] = [h.name(), h.name()]
      const lease = await closed.locks.lock(held).acquire()
      const blocker = await other.locks.lock(taken).acquire()
      const lost = lossOf(lease)
      const waits = eventOf(closed, 'contended', taken)
      const waiters = Array.from({ length: 3 }, () =>
        h.rejects(closed.locks.lock(taken).acquire({ waitMs: h.ms(20_000) }), 'LOCK_CLOSED'),
      )
      await seenWaiting(Promise.race(waiters), waits)
      await closed.locks.close()
      await Promise.all(waiters)
      const { reason } = await inTime('the abort', h.ms(1_000), lost)
      assert.ok(isLockError(reason, 'LOCK_CLOSED'), String(reason))
      await h.free(held)
      const { waiters: left = 0 } = await other.locks.inspect(taken)
      assert.equal(left, 0, 'a waiter was left at the store')
      await blocker.release()
      await h.free(taken)
    },
  },
  {
    id: 'HYG-6',
    title: 'a closed client rejects every call with LOCK_CLOSED and does not ask the store',
    kind: 'required',
    async run(h) {
      const { locks, faults } = await h.client()
      const lock = locks.lock(h.name())
      const lease = await lock.acquire()
      await locks.close()
      const calls = { ...faults.calls }
      const outcomes = [
        lock.acquire(),
        lock.tryAcquire(),
        lock.with(() => assert.fail('it ran')),
        lock.inspect(),
        locks.with(h.name(), () => assert.fail('it ran')),
        locks.inspect(h.name()),
        locks.checkSequencer(lease.sequencer),
        lease.extend(),
      ]
      await Promise.all(outcomes.map((outcome) => h.rejects(outcome, 'LOCK_CLOSED')))
      assert.throws(() => lease.assertHeld(), { code: 'LOCK_CLOSED' })
      assert.deepEqual(faults.calls, calls)
    },
  },
  {
    id: 'HYG-7',
    title: 'close may be called again, and ends within a bound even if the store is silent',
    kind: 'required',
    async run(h) {
      const [hung, other] = [await h.client({ ttlMs: h.ttlMs, storeTimeoutMs: h.ms(800) }), await h.client()]
      const [held, taken] = [h.name(), h.name()]
      await hung.locks.lock(held).acquire()
      const blocker = await other.locks.lock(taken).acquire()
      const waits = eventOf(hung, 'contended', taken)
      const waiter = h.rejects(hung.locks.lock(taken).acquire({ waitMs: h.ms(60_000) }), 'LOCK_CLOSED')
      await seenWaiting(waiter, waits)
      for (const method of ['attempt', 'withdraw', 'renew', 'release'] as const)
        hung.faults.inject(method, 'hang')
      const closed = Promise.all([hung.locks.close(), hung.locks.close()])
      await inTime('close', h.ms(6_000), closed)
      await waiter
      await hung.locks.close()
      await blocker.release()
      await soonFree(h, held, h.ttlMs * 2 + h.ms(2_000))
      const bare = faulty(() => h.adapter().adapter)
      const stuck = createLocks(bare.factory, { storeTimeoutMs: h.ms(500) })
      bare.faults.inject('close', 'hang')
      await inTime('close', h.ms(3_000), h.rejects(stuck.close(), 'LOCK_UNAVAILABLE'))
      bare.faults.heal()
    },
  },
]
