import assert from 'node:assert/strict'
import type { Locks } from '../../api/contract.ts'
import type { Rule } from '../rule.ts'
import { onceAtTheStore } from './once-at-the-store.ts'
import { assertNotEarly, freesInTime } from './once-steps.ts'
import { assertInTime, pass } from './observe.ts'
import { assertRising, startWaiting, takeOver, takeOverMs, takeWhenOver } from './steps.ts'
import { queueUp } from './waiting-in-line.ts'

/** Fails the rule if another client gets the name before the time is over. */
async function assertTaken(locks: Locks, lock: string, askedAt: number, minHoldMs: number): Promise<void> {
  const early = await locks.lock(lock).tryAcquire()
  if (early !== null) isOver(askedAt, minHoldMs)
}

/** The name is free: too early, or later than this rule could look. */
function isOver(askedAt: number, minHoldMs: number): never {
  assertNotEarly(askedAt, minHoldMs)
  throw new Error('the time was over before it could be checked')
}

export const once: readonly Rule[] = [
  {
    id: 'ONCE-1',
    title: 'a release before minHoldMs is over does not free the name, which is free soon after',
    kind: 'optional',
    needs: ['min-hold'],
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const minHoldMs = h.ttlMs
      const askedAt = performance.now()
      const lease = await holder.locks.lock(lock).acquire({ minHoldMs, owner: 'the job' })
      await lease.release()
      assert.equal(lease.state, 'released')
      await assertTaken(other.locks, lock, askedAt, minHoldMs)
      await assertTaken(holder.locks, lock, askedAt, minHoldMs)
      const state = await other.locks.inspect(lock)
      if (state.holder === undefined) isOver(askedAt, minHoldMs)
      assert.equal(state.holder?.owner, 'the job')
      assert.ok((state.remainingMs ?? 0) <= minHoldMs, `${state.remainingMs} ms remain of ${minHoldMs}`)
      assertRising(h, [lease.fence, await freesInTime(h, lock, askedAt, minHoldMs)])
    },
  },
  {
    id: 'ONCE-2',
    title: 'minHoldMs counts from the grant, not from the release; a release after it frees at once',
    kind: 'optional',
    needs: ['min-hold'],
    async run(h) {
      const { locks } = await h.client()
      const [within, beyond] = [h.name('within'), h.name('beyond')]
      const minHoldMs = h.ttlMs
      const askedAt = performance.now()
      const long = await locks.lock(beyond).acquire({ minHoldMs: Math.ceil(minHoldMs / 10) })
      const lease = await locks.lock(within).acquire({ minHoldMs })
      await pass(minHoldMs * 0.6)
      await lease.release()
      await assertTaken(locks, within, askedAt, minHoldMs)
      await long.release()
      await h.free(beyond)
      await freesInTime(h, within, askedAt, minHoldMs)
    },
  },
  {
    id: 'ONCE-3',
    title:
      'a waiter is granted the name when minHoldMs is over, not at the release, in time and in this process too',
    kind: 'optional',
    needs: ['min-hold'],
    async run(h) {
      const [holder, waiter] = [await h.client(), await h.client()]
      const minHoldMs = h.ttlMs
      for (const { locks } of [waiter, holder]) {
        const lock = h.name()
        const askedAt = performance.now()
        const lease = await holder.locks.lock(lock).acquire({ minHoldMs })
        const { granted } = await startWaiting(locks, lock, takeOverMs(h) * 4)
        await lease.release()
        const next = await granted
        const at = performance.now()
        assertNotEarly(askedAt, minHoldMs, at)
        await assertInTime('granted after minHoldMs', takeOver(h), at - askedAt)
        assertRising(h, [lease.fence, next.fence])
        await next.release()
      }
    },
  },
  {
    id: 'ONCE-4',
    title: 'waiters are served in their order after minHoldMs, and none before',
    kind: 'optional',
    needs: ['min-hold', 'fifo'],
    async run(h) {
      const { locks } = await h.client()
      const lock = h.name()
      // Longer than it takes to enqueue.
      const minHoldMs = h.ttlMs * 3
      const askedAt = performance.now()
      const lease = await locks.lock(lock).acquire({ minHoldMs })
      const waiters = await queueUp(h, lock, 3)
      await lease.release()
      const fences = [lease.fence]
      for (const { turn } of waiters) {
        const next = await turn
        assertNotEarly(askedAt, minHoldMs)
        fences.push(next.fence)
        await next.release()
      }
      assertRising(h, fences)
    },
  },
  {
    id: 'ONCE-5',
    title: 'the hold of a killed process ends after its ttl, however long minHoldMs is',
    kind: 'optional',
    needs: ['min-hold', 'processes'],
    async run(h) {
      const lock = h.name()
      const holder = await h.child({ ttlMs: h.ttlMs })
      const { locks } = await h.client()
      const { fence } = await holder.call('acquire', { lock, options: { minHoldMs: h.lastingMs } })
      const { granted } = await startWaiting(locks, lock, takeOverMs(h) * 2)
      const killedAt = performance.now()
      await holder.kill()
      const next = await granted
      await assertInTime('granted to the next', takeOver(h), performance.now() - killedAt)
      assertRising(h, [fence, next.fence])
    },
  },
  {
    id: 'ONCE-6',
    title: 'the name stays taken when the process that released it has ended, and is free in time',
    kind: 'optional',
    needs: ['min-hold', 'processes'],
    async run(h) {
      const lock = h.name()
      const minHoldMs = h.ttlMs * 2
      const [holder, { locks }] = [await h.child(), await h.client()]
      const calledAt = performance.now()
      const { lease } = await holder.call('acquire', { lock, options: { minHoldMs } })
      const bound = { ms: minHoldMs + h.ms(250), waitsMs: minHoldMs, from: 'minHoldMs + 250 ms' }
      await holder.call('release', { lease })
      await holder.kill()
      await assertTaken(locks, lock, calledAt, minHoldMs)
      await takeWhenOver(h, h.adapter(), lock, bound)
      assertNotEarly(calledAt, minHoldMs)
    },
  },
  {
    id: 'ONCE-7',
    title: 'break frees a name that is only kept by minHoldMs, and a broken hold does not keep it',
    kind: 'optional',
    needs: ['min-hold', 'break'],
    async run(h) {
      const [holder, operator] = [await h.client(), await h.client()]
      const [kept, broken] = [h.name('kept'), h.name('broken')]
      const minHoldMs = h.lastingMs
      const released = await holder.locks.lock(kept).acquire({ minHoldMs, owner: 'the job' })
      await released.release()
      assert.equal((await operator.locks.lock(kept).break())?.owner, 'the job')
      await h.free(kept)
      const lease = await holder.locks.lock(broken).acquire({ minHoldMs })
      await operator.locks.lock(broken).break()
      await h.rejects(lease.release(), 'LOCK_LOST')
      await h.free(broken)
    },
  },
  {
    id: 'ONCE-8',
    title: 'without a minimum hold, asking for one is LOCK_UNSUPPORTED before the store is touched',
    kind: 'optional',
    needs: ['no min-hold'],
    async run(h) {
      const { locks, faults } = await h.client()
      const lock = locks.lock(h.name())
      const minHoldMs = h.ttlMs
      const body = (): never => assert.fail('the callback ran')
      await h.rejects(lock.acquire({ minHoldMs }), 'LOCK_UNSUPPORTED')
      await h.rejects(lock.tryAcquire({ minHoldMs }), 'LOCK_UNSUPPORTED')
      await h.rejects(lock.with({ minHoldMs }, body), 'LOCK_UNSUPPORTED')
      await h.rejects(locks.once(h.name(), { minHoldMs }, body), 'LOCK_UNSUPPORTED')
      assert.throws(() => locks.lock(h.name(), { minHoldMs }), { code: 'LOCK_UNSUPPORTED' })
      const calls = Object.values(faults.calls)
      assert.ok(
        calls.every((count) => count === 0),
        'the adapter was called',
      )
    },
  },
  ...onceAtTheStore,
]
