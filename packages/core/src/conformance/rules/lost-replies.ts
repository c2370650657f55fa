import assert from 'node:assert/strict'
import type { Rule } from '../rule.ts'
import { wireLosses } from './lost-replies-wire.ts'
import {
  assertHolder,
  assertInTime,
  assertKept,
  assertStillHeld,
  seenWaiting,
  eventOf,
  inTime,
  pass,
  rejectsWith,
  soonFree,
} from './observe.ts'

export const lostReplies: readonly Rule[] = [
  {
    id: 'LOST-1',
    title: 'an acquire whose reply is lost still gets the lock, and does not wait for itself',
    kind: 'required',
    async run(h) {
      const { locks, faults } = await h.client()
      const lock = h.name()
      faults.inject('attempt', 'lose-reply', 2)
      // Shorter than the lease: a lost grant would still block the name at the end.
      const lease = await locks.lock(lock).acquire({ waitMs: h.ttlMs * 5 })
      assert.equal(faults.calls.attempt, 3)
      await assertStillHeld(h, lease)
      await assertHolder(h, lease)
      await lease.release()
      await h.free(lock)
    },
  },
  {
    id: 'LOST-2',
    title: 'the adapter answers a repeated attempt with its existing hold, under the same fence',
    kind: 'required',
    async run(h) {
      const holder = h.adapter()
      const lock = h.name()
      const wanted = holder.request(lock)
      const first = await holder.take(wanted)
      for (let n = 0; n < 3; n += 1) {
        const again = await holder.take(wanted)
        assert.equal(again.fence, first.fence)
        assert.equal(again.attemptId, wanted.attemptId)
      }
      assert.equal(await holder.adapter.release(first), 'released')
      await h.free(lock)
    },
  },
  {
    id: 'LOST-3',
    title: 'the adapter gives a repeated attempt a fresh ttl',
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const [holder, other] = [h.adapter(), h.adapter()]
      const lock = h.name()
      const ttlMs = h.ttlMs * 4
      // Connects now, so that the check at the end takes one round trip.
      await other.take(other.request(h.name('warm-up')))
      const wanted = holder.request(lock, { ttlMs })
      const { fence } = await holder.take(wanted)
      const grantedAt = performance.now()
      await pass(ttlMs * 0.6)
      const again = await holder.take(wanted)
      if (again.fence !== fence) await assertInTime('the repetition', ttlMs, performance.now() - grantedAt)
      assert.equal(again.fence, fence)
      await pass(grantedAt + ttlMs * 1.3 - performance.now())
      const answer = await other.adapter.attempt(other.request(lock))
      if (!('busy' in answer)) await assertInTime('a look', ttlMs * 1.6, performance.now() - grantedAt)
      assert.ok('busy' in answer, 'the hold ended with its first ttl')
      const { holder: now } = await other.adapter.inspect(lock)
      if (h.capabilities.fencing !== 'none') assert.equal(now?.fence, fence)
    },
  },
  {
    id: 'LOST-4',
    title: 'a lease whose renewals take effect unconfirmed is kept beyond its ttl once one is confirmed',
    kind: 'required',
    async run(h) {
      const ttlMs = h.ttlMs * 3
      const [holder, other] = [await h.client({ ttlMs }), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const firstDeadline = performance.now() + lease.remainingMs
      holder.faults.inject('renew', 'lose-reply', 2)
      await inTime('a jeopardy event', ttlMs, eventOf(holder, 'jeopardy', lock))
      await h.eventually('held again', ttlMs, () => lease.state === 'held')
      await pass(firstDeadline + h.ttlMs / 5 - performance.now())
      await assertKept(h, lease, other)
      await assertHolder(h, lease)
      await lease.release()
      await h.free(lock)
    },
  },
  {
    id: 'LOST-5',
    title: 'a release whose reply is lost succeeds, and does not free a successor',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const [alone, wanted] = [h.name(), h.name()]
      for (const lock of [alone, wanted]) {
        const lease = await holder.locks.lock(lock).acquire()
        const waits = eventOf(other, 'contended', lock)
        const turn = lock === wanted && other.locks.lock(lock).acquire({ waitMs: h.ttlMs * 10 })
        if (turn) await seenWaiting(turn, waits)
        holder.faults.inject('release', 'lose-reply', 1)
        await lease.release()
        assert.equal(lease.state, 'released')
        if (turn) await assertHolder(h, await turn)
        else await h.free(lock)
      }
    },
  },
  {
    id: 'LOST-6',
    title: 'an acquire that gave up after its reply was lost leaves nothing behind',
    kind: 'required',
    async run(h) {
      const { locks, faults } = await h.client()
      const [tried, aborted] = [h.name(), h.name()]
      faults.inject('attempt', 'lose-reply', 1)
      // The withdrawal must not depend on its first try either.
      faults.inject('withdraw', 'fail', 1)
      await h.rejects(locks.lock(tried).tryAcquire({ retry: { attempts: 1 } }), 'LOCK_UNAVAILABLE')
      await soonFree(h, tried)
      // A silent attempt is withdrawn after this long.
      const other = await h.client({ storeTimeoutMs: h.ms(2_000) })
      other.faults.inject('attempt', 'swallow-reply', 1)
      other.faults.inject('withdraw', 'lose-reply', 1)
      const controller = new AbortController()
      const outcome = other.locks.lock(aborted).acquire({ signal: controller.signal })
      const { adapter } = h.adapter()
      await h.eventually('a grant', h.ms(5_000), async () => (await adapter.inspect(aborted)).held)
      controller.abort('given up')
      await rejectsWith(outcome, 'given up')
      await soonFree(h, aborted)
    },
  },
  {
    id: 'LOST-7',
    title: 'the adapter does not free a successor for a release that arrives twice',
    kind: 'required',
    async run(h) {
      const [first, second] = [h.adapter(), h.adapter()]
      const lock = h.name()
      const stale = await first.take(first.request(lock))
      assert.equal(await first.adapter.release(stale), 'released')
      const grant = await second.take(second.request(lock))
      assert.equal(await first.adapter.release(stale), 'not-held')
      assert.equal(await second.renew({ grant, ttlMs: h.ttlMs, lockDelayMs: 0 }), 'renewed')
      assert.ok('busy' in (await first.adapter.attempt(first.request(lock))))
    },
  },
  {
    id: 'LOST-8',
    title: 'an attempt that arrives again after its end blocks the name for at most a ttl',
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const [first, second] = [h.adapter(), h.adapter()]
      const [released, withdrawn] = [
        first.request(h.name(), { ttlMs: h.ttlMs }),
        first.request(h.name(), { ttlMs: h.ttlMs, willWait: true }),
      ]
      const grant = await first.take(released)
      await first.adapter.release(grant)
      await first.take(withdrawn)
      await first.adapter.withdraw(withdrawn)
      for (const request of [released, withdrawn]) await first.adapter.attempt(request)
      for (const { name } of [released, withdrawn]) {
        const next = await h.eventually(`${name} is free`, h.ttlMs * 2 + h.ms(2_000), async () => {
          const answer = await second.adapter.attempt(second.request(name))
          return 'fence' in answer && answer
        })
        if (h.capabilities.fencing !== 'none' && name === released.name) assert.ok(next.fence > grant.fence)
      }
    },
  },
  {
    id: 'LOST-16',
    title: 'an attempt that reaches the store after its caller gave up leaves nothing behind',
    kind: 'required',
    async run(h) {
      const { locks, faults } = await h.client()
      const lock = h.name()
      const lateMs = h.ms(300)
      faults.inject('attempt', { lateMs }, 1)
      const controller = new AbortController()
      const outcome = locks.lock(lock).acquire({ signal: controller.signal })
      controller.abort('given up')
      await rejectsWith(outcome, 'given up')
      await h.eventually('its withdrawal', h.ms(5_000), () => faults.calls.withdraw > 0)
      await pass(lateMs * 1.5)
      await soonFree(h, lock)
    },
  },
  {
    id: 'LOST-17',
    title: 'an older attempt or renewal that arrives late does not bring the end of a hold forward',
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const holder = h.adapter()
      const other = h.adapter()
      const lock = h.name()
      const ttlMs = h.ttlMs * 2
      const request = holder.request(lock, { ttlMs })
      const grant = await holder.take(request)
      const long = { grant, ttlMs: ttlMs * 4, lockDelayMs: 0 }
      assert.equal(await holder.renew(long), 'renewed')
      assert.equal(await holder.renew({ ...long, ttlMs }), 'renewed')
      assert.equal((await holder.take(request)).fence, grant.fence)
      const since = performance.now()
      while (performance.now() < since + ttlMs * 1.5) {
        const answer = await other.adapter.attempt(other.request(lock))
        if (!('busy' in answer)) await assertInTime('a look', ttlMs * 3, performance.now() - since)
        assert.ok('busy' in answer, 'it ended early')
        await new Promise((resolve) => setTimeout(resolve, h.ttlMs / 10))
      }
    },
  },
  {
    id: 'LOST-18',
    title:
      "a withdrawal right behind a client's first attempt does not overtake it: the name is free, and stays so",
    kind: 'required',
    async run(h) {
      const reason = new Error('given up in the same turn')
      for (const willWait of [false, true]) {
        // It has no connection yet: an attempt may be delayed by that and its withdrawal not.
        const { locks } = await h.client()
        const aborted = h.name('aborted')
        const controller = new AbortController()
        const options = { signal: controller.signal, waitMs: willWait ? h.ms(20_000) : 0 }
        const outcome = locks.lock(aborted).acquire(options)
        controller.abort(reason)
        await rejectsWith(outcome, reason)
        await locks.close()
        await h.free(aborted)
      }
    },
  },
  {
    id: 'LOST-19',
    title: 'the lock-delay of a lost grant keeps out others, and not its own attempt when that is repeated',
    kind: 'optional',
    needs: ['lock-delay', 'lease'],
    async run(h) {
      const [holder, other] = [h.adapter(), h.adapter()]
      const lock = h.name()
      const lockDelayMs = h.ttlMs * 20
      // Connects now, so that its look takes one round trip.
      await other.take(other.request(h.name('warm-up')))
      const wanted = holder.request(lock, { ttlMs: h.ttlMs, lockDelayMs })
      const lost = await holder.take(wanted)
      const grantedAt = performance.now()
      await pass(h.ttlMs * 1.2)
      const answer = await other.adapter.attempt(other.request(lock))
      if (!('busy' in answer))
        await assertInTime('a look', h.ttlMs + lockDelayMs, performance.now() - grantedAt)
      assert.ok('busy' in answer, 'the lock-delay ended early')
      const again = await holder.take(wanted)
      assert.equal(again.attemptId, wanted.attemptId)
      if (h.capabilities.fencing !== 'none')
        assert.ok(again.fence >= lost.fence, 'its fence is lower than that of the lost grant')
      await assertHolder(h, again)
      assert.equal(await holder.adapter.release(again), 'released')
      await h.free(lock)
    },
  },
  ...wireLosses,
]
