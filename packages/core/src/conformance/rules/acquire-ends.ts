import assert from 'node:assert/strict'
import { isLockError } from '../../adapter/lock-error.ts'
import type { LockEvents } from '../../engine/events.ts'
import type { TestClient } from '../harness.ts'
import type { Rule } from '../rule.ts'
import { seenWaiting, eventOf, lockError } from './observe.ts'

type End = LockEvents['acquire']

/** Runs `act` and returns the one `acquire` event about `lock` that it causes. */
async function endOf({ locks }: TestClient, lock: string, act: () => Promise<unknown>): Promise<End> {
  const ends: End[] = []
  const off = locks.on('acquire', (end) => void (end.lock === lock && ends.push(end)))
  await act()
  off()
  const [end, ...more] = ends
  assert.ok(end !== undefined, 'an acquire ended without an event')
  assert.equal(more.length, 0, 'an acquire ended with more than one event')
  return end
}

/** What monitoring can count. */
export const acquireEnds: readonly Rule[] = [
  {
    id: 'ERR-17',
    title:
      'every acquire that ends has one event: acquired, busy, timeout, unavailable or aborted, with its attempts',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client({ store: 'the store' })]
      const lock = h.name()
      const named = other.locks.lock(lock, { label: 'the label' })
      const lease = await holder.locks.lock(lock).acquire({ owner: 'the owner' })
      const busy = await endOf(other, lock, async () => assert.equal(await named.tryAcquire(), null))
      const refused = await endOf(other, lock, () => lockError(named.acquire({ waitMs: 0 }), 'LOCK_TIMEOUT'))
      const waitMs = h.ms(1_000)
      const late = await endOf(other, lock, () => lockError(named.acquire({ waitMs }), 'LOCK_TIMEOUT'))
      assert.deepEqual([busy.outcome, refused.outcome, late.outcome], ['busy', 'busy', 'timeout'])
      assert.ok(late.waitMs >= waitMs, `it says ${late.waitMs} ms, and waited ${waitMs}`)

      const early = await endOf(other, lock, () =>
        assert.rejects(named.acquire({ signal: AbortSignal.abort(new Error('before')) }), /before/),
      )
      const aborted = await endOf(other, lock, async () => {
        const [waits, controller] = [eventOf(other, 'contended', lock), new AbortController()]
        const waiting = named.acquire({ signal: controller.signal, waitMs: h.ms(20_000) })
        await seenWaiting(waiting, waits)
        controller.abort(new Error('mine'))
        await assert.rejects(waiting, /mine/)
      })
      assert.deepEqual([early.outcome, aborted.outcome], ['aborted', 'aborted'])
      assert.equal(early.attempts, 0)

      await lease.release()
      other.faults.inject('attempt', 'fail')
      const failed = await endOf(other, lock, () => lockError(named.tryAcquire(), 'LOCK_UNAVAILABLE'))
      assert.ok(
        'error' in failed && failed.outcome === 'unavailable',
        `an outage is called ${failed.outcome}`,
      )
      assert.ok(isLockError(failed.error, 'LOCK_UNAVAILABLE'))
      other.faults.heal()
      const owner = h.name()
      const acquired = await endOf(other, lock, () => named.acquire({ owner }))
      const reentered = await endOf(other, lock, () => named.acquire({ owner }))
      assert.ok(acquired.outcome === 'acquired' && !acquired.reentered)
      assert.ok(reentered.outcome === 'acquired' && reentered.reentered && reentered.attempts === 0)
      assert.equal(reentered.fence, acquired.fence)
      const closed = await endOf(other, lock, async () => {
        const waiting = lockError(named.acquire({ waitMs: h.ms(20_000) }), 'LOCK_CLOSED')
        await Promise.all([other.locks.close(), waiting])
      })
      assert.equal(closed.outcome, 'aborted')

      for (const end of [busy, refused, late, aborted, failed, acquired])
        assert.ok(end.attempts >= 1 && end.waitMs >= 0, `${end.outcome} after ${end.attempts} attempts`)
      const { name } = h.adapter().adapter
      for (const { label, store, adapter } of [
        busy,
        late,
        early,
        aborted,
        failed,
        acquired,
        reentered,
        closed,
      ])
        assert.deepEqual([label, store, adapter], ['the label', 'the store', name])
    },
  },
]
