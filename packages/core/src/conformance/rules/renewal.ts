import assert from 'node:assert/strict'
import { isLockError } from '../../adapter/lock-error.ts'
import type { Lease } from '../../api/contract.ts'
import type { Rule } from '../rule.ts'
import {
  acquireAfter,
  assertHolder,
  assertInTime,
  assertKept,
  assertStillHeld,
  breakHold,
  eventOf,
  inTime,
  lockError,
  lossOf,
  pass,
} from './observe.ts'
import { deadlines } from './renewal-deadlines.ts'
import { lengths } from './renewal-lengths.ts'

export const renewal: readonly Rule[] = [
  {
    id: 'RENEW-1',
    title: 'a renewed lease outlives its ttl several times, exclusive and under one fence',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client({ ttlMs: h.ttlMs }), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const { fence } = lease
      const until = performance.now() + h.ttlMs * 3.5
      while (performance.now() < until) {
        await assertKept(h, lease, other)
        await pass(h.ttlMs / 5)
      }
      assert.equal(lease.signal.aborted, false)
      assert.equal(lease.fence, fence)
      await assertHolder(h, lease)
      await lease.release()
      await h.free(lock)
    },
  },
  {
    id: 'RENEW-2',
    title: 'a fixed lease is never renewed: it is lost at its ttl, and then the name goes to others',
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      // The store itself must forget the holder, which sends nothing more.
      holder.faults.inject('release', 'hang')
      const calledAt = performance.now()
      const lease = await holder.locks.lock(lock).acquire({ ttlMs: h.ttlMs, renew: false })
      const lost = lossOf(lease)
      const next = await acquireAfter(other, lease, h.ttlMs * 3 + h.ms(2_000))
      const heldMs = performance.now() - calledAt
      assert.ok(heldMs >= h.ttlMs * 0.95, `it went to another after ${heldMs} ms of ${h.ttlMs}`)
      await inTime('the abort', h.ttlMs, lost)
      assert.equal(holder.faults.calls.renew, 0)
      assert.throws(() => lease.assertHeld(), { code: 'LOCK_LOST' })
      await h.rejects(lease.release(), 'LOCK_LOST')
      await assertHolder(h, next)
    },
  },
  {
    id: 'RENEW-3',
    title: 'with a hung store a lease is in jeopardy, then lost by the local clock before its next holder',
    kind: 'required',
    async run(h) {
      // Long enough for a busy machine to check between the overdue renewal and the deadline.
      const [holder, other] = [await h.client({ ttlMs: h.ttlMs * 3 }), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const [since, { remainingMs }] = [performance.now(), lease]
      holder.faults.inject('renew', 'hang')
      // A lease ends at the store by itself. A session does not: the holder has to end it.
      if (h.capabilities.kind === 'lease') holder.faults.inject('release', 'hang')
      const inJeopardy = eventOf(holder, 'jeopardy', lock).then(() => ({
        seen: [lease.state, lease.signal.aborted],
        at: performance.now(),
      }))
      const lost = lossOf(lease)
      const waitMs = h.ttlMs * 5 + h.ms(3_000)
      const next = acquireAfter(other, lease, waitMs)
      const { seen, at } = await inTime('a jeopardy event', waitMs, inJeopardy)
      await assertInTime('in jeopardy before the deadline', { ms: remainingMs, from: 'ttlMs' }, at - since)
      assert.deepEqual(seen, ['jeopardy', false])
      const [, grant] = await Promise.all([inTime('the abort', waitMs, lost), next])
      await assertHolder(h, grant)
    },
  },
  {
    id: 'RENEW-4',
    title: 'a hold that the store no longer knows is lost at the next renewal, long before its deadline',
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire({ ttlMs: h.ttlMs * 3 })
      const since = performance.now()
      const { remainingMs } = lease
      const event = eventOf(holder, 'lost', lock)
      await breakHold(h, holder, lock)
      const successor = await other.locks.lock(lock).tryAcquire()
      assert.ok(successor)
      const { at, reason } = await inTime('the abort', h.ttlMs * 4, lossOf(lease))
      // Due after a third of it. Every holder notices at the deadline.
      const bound = { ms: (remainingMs * 2) / 3, from: 'two thirds of ttlMs' }
      await assertInTime('noticed before the deadline', bound, at - since)
      assert.ok(isLockError(reason, 'LOCK_LOST'), String(reason))
      assert.equal((await event).fence, lease.fence)
      assert.throws(() => lease.assertHeld(), { code: 'LOCK_LOST' })
      await h.rejects(lease.extend(), 'LOCK_LOST')
      await h.rejects(lease.release(), 'LOCK_LOST')
      await assertHolder(h, successor)
    },
  },
  {
    id: 'RENEW-5',
    title: 'renewals that fail for a while put a lease in jeopardy, and the next one that succeeds ends that',
    kind: 'required',
    async run(h) {
      const ttlMs = h.ttlMs * 3
      const [holder, other] = [await h.client({ ttlMs }), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const firstDeadline = performance.now() + lease.remainingMs
      holder.faults.inject('renew', 'fail', 2)
      const { cause } = await inTime('a jeopardy event', ttlMs, eventOf(holder, 'jeopardy', lock))
      assert.match(String(cause), /renew failed/)
      await h.eventually('held again', ttlMs, () => lease.state === 'held')
      await pass(firstDeadline + h.ttlMs / 5 - performance.now())
      await assertKept(h, lease, other)
      assert.equal(lease.signal.aborted, false)
      await assertHolder(h, lease)
    },
  },
  {
    id: 'RENEW-6',
    title: 'maxHoldMs ends the renewal of a stuck holder: it is lost, and others get the lock',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client({ ttlMs: h.ttlMs }), await h.client()]
      const lock = h.name()
      let unstick: () => void = () => undefined
      const stuck = new Promise<void>((resolve) => (unstick = resolve))
      let enter: (lease: Lease) => void = () => undefined
      const entered = new Promise<Lease>((resolve) => (enter = resolve))
      const work = holder.locks.with(lock, { maxHoldMs: h.ttlMs }, (lease) => {
        enter(lease)
        return stuck
      })
      const outcome = lockError(work, 'LOCK_LOST')
      const lease = await entered
      const next = await acquireAfter(other, lease, h.ttlMs * 5 + h.ms(3_000))
      assert.ok(holder.faults.calls.renew > 0, 'it should have been renewed at first')
      await inTime('the abort', h.ttlMs, lossOf(lease))
      await assertHolder(h, next)
      unstick()
      await outcome
    },
  },
  {
    id: 'RENEW-8',
    title: 'nothing is renewed after its release',
    kind: 'required',
    async run(h) {
      const { locks, faults } = await h.client({ ttlMs: h.ttlMs })
      const lease = await locks.lock(h.name()).acquire()
      await h.eventually('a renewal', h.ttlMs * 2, () => faults.calls.renew > 0)
      await lease.release()
      const renewals = faults.calls.renew
      await pass(h.ttlMs * 1.2)
      assert.equal(faults.calls.renew, renewals)
    },
  },
  {
    id: 'RENEW-11',
    title: 'leases that fall due together are renewed together: many leases, few calls',
    kind: 'required',
    async run(h) {
      const { locks, faults } = await h.client({ ttlMs: h.ttlMs * 3 })
      // A session may need a connection for each lock.
      const count = h.capabilities.kind === 'lease' ? 50 : 20
      const names = Array.from({ length: count }, () => h.name())
      const leases = await Promise.all(names.map((name) => locks.lock(name).acquire()))
      // From here on they are due together, however long it took to acquire them.
      await Promise.all(leases.map((lease) => lease.extend()))
      const before = faults.calls.renew
      const periodMs = Math.max(...leases.map(({ remainingMs }) => remainingMs)) / 3
      const start = performance.now()
      await pass(periodMs * 2.5)
      const periods = Math.ceil((performance.now() - start) / periodMs)
      for (const lease of leases) await assertStillHeld(h, lease)
      const renew = faults.calls.renew - before
      assert.ok(renew >= 1, `no renewal in ${periods} periods`)
      if (renew < 2) await assertInTime('the second renewal', periodMs * 2.5, performance.now() - start)
      assert.ok(renew <= periods * 5, `${renew} calls to renew ${count} leases in ${periods} periods`)
      await Promise.all(leases.map((lease) => lease.release()))
    },
  },
  ...deadlines,
  ...lengths,
]
