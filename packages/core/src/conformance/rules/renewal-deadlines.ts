import assert from 'node:assert/strict'
import { isLockError } from '../../adapter/lock-error.ts'
import type { Rule } from '../rule.ts'
import {
  assertHolder,
  assertInTime,
  assertKept,
  assertStillHeld,
  breakHold,
  inTime,
  lossOf,
  pass,
  soonFree,
} from './observe.ts'
import { takeWhenOver } from './steps.ts'

/** What moves a deadline and what does not, in the holder and at the store. */
export const deadlines: readonly Rule[] = [
  {
    id: 'RENEW-7',
    title: 'extend moves the deadline, here and at the store',
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire({ ttlMs: h.ttlMs * 2, renew: false })
      await lease.extend(h.ttlMs * 6)
      assert.ok(lease.remainingMs > h.ttlMs * 2, `${lease.remainingMs} ms remain`)
      await pass(h.ttlMs * 3)
      await assertKept(h, lease, other)
      assert.equal(holder.faults.calls.renew, 1)
      await assertHolder(h, lease)
    },
  },
  {
    id: 'RENEW-9',
    title: 'a lease counts from before its request was sent, however late the grant arrives',
    kind: 'required',
    async run(h) {
      const asked = { ttlMs: h.ttlMs * 2 }
      const bare = h.adapter(asked)
      const { ttlMs } = await bare.take(bare.request(h.name()))
      const { locks, faults } = await h.client(asked)
      const delayMs = ttlMs / 2
      faults.inject('attempt', { delayMs }, 1)
      const lease = await locks.lock(h.name()).tryAcquire({ retry: { attempts: 1 } })
      assert.ok(lease)
      const { remainingMs } = lease
      assert.ok(remainingMs <= ttlMs - delayMs, `${remainingMs} of ${ttlMs} ms, granted ${delayMs} ms ago`)
      await lease.release()
    },
  },
  {
    id: 'RENEW-10',
    title: 'a grant that took longer than its ttl is not returned and leaves nothing behind',
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const options = { ttlMs: h.ttlMs, storeTimeoutMs: h.ttlMs * 6 }
      const [once, patient] = [await h.client(options), await h.client(options)]
      // Granted when the lease had already expired here: the store would keep it for another ttl.
      for (const { faults } of [once, patient]) faults.inject('attempt', { lateMs: h.ttlMs * 1.2 }, 1)
      const refused = h.name()
      const tried = once.locks.lock(refused).tryAcquire({ retry: { attempts: 1 } })
      const refusal = h.rejects(tried, 'LOCK_UNAVAILABLE')
      const lease = patient.locks.lock(h.name()).acquire({ waitMs: h.ttlMs * 8 })
      await refusal
      await soonFree(h, refused, h.ttlMs * 0.7)
      await assertStillHeld(h, await lease)
      await assertHolder(h, await lease)
    },
  },
  {
    id: 'RENEW-12',
    title: 'the adapter returns lost for an expired hold even if the name is free, and does not revive it',
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const holder = h.adapter()
      const { adapter } = holder
      const lock = h.name()
      const grant = await holder.take(holder.request(lock, { ttlMs: h.ttlMs }))
      await h.eventually('the hold expires', h.ttlMs * 3, async () => !(await adapter.inspect(lock)).held)
      assert.equal(await holder.renew({ grant, ttlMs: h.ttlMs, lockDelayMs: 0 }), 'lost')
      assert.equal((await adapter.inspect(lock)).held, false)
    },
  },
  {
    id: 'RENEW-13',
    title: "a renewal moves the store's own expiry, and the hold ends there when that has passed",
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const [holder, other] = [h.adapter(), h.adapter()]
      const lock = h.name()
      const ttlMs = h.ttlMs * 3
      const grant = await holder.take(holder.request(lock, { ttlMs: h.ttlMs }))
      const grantedAt = performance.now()
      const renewal = await holder.renew({ grant, ttlMs, lockDelayMs: 0 })
      if (renewal !== 'renewed') await assertInTime('a renewal', h.ttlMs, performance.now() - grantedAt)
      assert.equal(renewal, 'renewed')
      const renewedAt = performance.now()
      await pass(h.ttlMs * 1.5)
      const early = await other.adapter.attempt(other.request(lock))
      if (!('busy' in early))
        await assertInTime('a look before the end', ttlMs, performance.now() - renewedAt)
      assert.ok('busy' in early, 'expired in spite of its renewal')
      // A store without a clock may have to see the hold unchanged for its whole length first.
      await h.eventually('the renewed hold expires', ttlMs * 2 + h.ms(2_000), async () => {
        return 'fence' in (await other.adapter.attempt(other.request(lock)))
      })
      assert.ok(performance.now() - renewedAt > ttlMs * 0.9, 'expired before its ttl')
    },
  },
  {
    id: 'RENEW-14',
    title: 'extending a lease that the store no longer knows is LOCK_LOST and does not re-acquire it',
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const holder = await h.client()
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire({ renew: false, ttlMs: h.ttlMs * 5 })
      await breakHold(h, holder, lock)
      await h.rejects(lease.extend(), 'LOCK_LOST')
      assert.equal(lease.signal.aborted, true)
      await h.free(lock)
      await h.rejects(lease.extend(), 'LOCK_LOST')
      await h.free(lock)
    },
  },
  {
    id: 'RENEW-15',
    title: 'extending with an unknown outcome is LOCK_UNAVAILABLE, and the old deadline stands',
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const { locks, faults } = await h.client()
      const lease = await locks.lock(h.name()).acquire({ ttlMs: h.ttlMs * 2, renew: false })
      const deadline = performance.now() + lease.remainingMs
      const lost = lossOf(lease)
      // Done at the store, but the holder cannot know.
      faults.inject('renew', 'lose-reply', 1)
      const extended = lease.extend(h.ttlMs * 20)
      // Lost by the clock before the answer came: the machine was paused.
      if (isLockError(await extended.catch((error: unknown) => error), 'LOCK_LOST')) await extended
      await h.rejects(extended, 'LOCK_UNAVAILABLE')
      // Nothing was extended; the process may have been paused between two readings of the clock.
      assert.ok(lease.remainingMs <= deadline - performance.now() + h.ttlMs)
      const { at } = await inTime('the abort', h.ttlMs * 6, lost)
      await assertInTime('lost after the old deadline', h.ttlMs, at - deadline)
    },
  },
  {
    id: 'RENEW-16',
    title: 'the adapter does not re-create a hold whose successor has come and gone',
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const [first, second] = [h.adapter(), h.adapter()]
      const lock = h.name()
      const stale = await first.take(first.request(lock, { ttlMs: h.ttlMs }))
      const successor = await takeWhenOver(h, second, lock)
      assert.equal(await second.adapter.release(successor), 'released')
      const renewal = { grant: stale, ttlMs: h.ttlMs, lockDelayMs: 0 }
      assert.equal(await first.renew(renewal), 'lost')
      await h.free(lock)
    },
  },
  {
    id: 'RENEW-17',
    title: 'a renewal counts from before it was sent, however late it is confirmed',
    kind: 'required',
    async run(h) {
      const asked = { ttlMs: h.ttlMs * 2 }
      const bare = h.adapter(asked)
      const { ttlMs } = await bare.take(bare.request(h.name()))
      const { locks, faults } = await h.client(asked)
      const lease = await locks.lock(h.name()).acquire()
      const delayMs = ttlMs / 2
      // Also that of a scheduled renewal, which would move the deadline.
      faults.inject('renew', { delayMs })
      await lease.extend()
      const { remainingMs } = lease
      assert.ok(remainingMs <= ttlMs - delayMs, `${remainingMs} of ${ttlMs} ms, renewed ${delayMs} ms ago`)
    },
  },
  {
    id: 'RENEW-18',
    title: 'a session is never relied on for longer than its own ttl, even if the caller asked for more',
    kind: 'optional',
    needs: ['session'],
    async run(h) {
      const bare = h.adapter({ ttlMs: h.ttlMs })
      const { ttlMs } = await bare.take(bare.request(h.name(), { ttlMs: h.lastingMs }))
      const { locks, faults } = await h.client({ ttlMs: h.ttlMs })
      const lease = await locks.lock(h.name()).acquire({ ttlMs: ttlMs * 10 })
      assert.ok(lease.remainingMs <= ttlMs, `${lease.remainingMs} ms of a session of ${ttlMs}`)
      await h.eventually('a renewal', ttlMs * 2, () => faults.calls.renew > 0)
      await pass(ttlMs / 10)
      assert.ok(lease.remainingMs <= ttlMs, `renewed to ${lease.remainingMs} ms of a session of ${ttlMs}`)
      await lease.extend(ttlMs * 10)
      assert.ok(lease.remainingMs <= ttlMs, `extended to ${lease.remainingMs} ms of a session of ${ttlMs}`)
    },
  },
]
