import assert from 'node:assert/strict'
import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises'
import type { Rule } from '../rule.ts'
import { assertStillHeld } from './observe.ts'

export const reEntry: readonly Rule[] = [
  {
    id: 'REEN-1',
    title: 'inside its own callback a lock is acquired again without waiting, under the same fence',
    kind: 'required',
    async run(h) {
      const { locks } = await h.client()
      const lock = h.name()
      await locks.with(lock, (outer) =>
        locks.with(lock, { waitMs: 0 }, (inner) => assert.equal(inner.fence, outer.fence)),
      )
      await h.free(lock)
    },
  },
  {
    id: 'REEN-2',
    title: 're-entered to any depth, the hold ends with the last release only',
    kind: 'required',
    async run(h) {
      const { locks } = await h.client()
      const other = await h.client()
      const lock = h.name()
      const owner = 'deep'
      const leases = []
      for (let depth = 0; depth < 5; depth += 1) leases.push(await locks.lock(lock).acquire({ owner }))
      // Not in the order of nesting: each release counts, whichever lease it is.
      for (const index of [2, 0, 4, 1]) {
        await leases[index]?.release()
        assert.equal(await other.locks.lock(lock).tryAcquire(), null, `freed by release of lease ${index}`)
      }
      await leases[3]?.release()
      await h.free(lock)
    },
  },
  {
    id: 'REEN-3',
    title: 'one release too many is an error and does not free what is still held',
    kind: 'required',
    async run(h) {
      const { locks } = await h.client()
      const other = await h.client()
      const lock = h.name()
      const outer = await locks.lock(lock).acquire({ owner: 'me' })
      const inner = await locks.lock(lock).acquire({ owner: 'me' })
      await inner.release()
      await h.rejects(inner.release(), 'LOCK_NOT_OWNED')
      assert.equal(await other.locks.lock(lock).tryAcquire(), null)
      await assertStillHeld(h, outer)
      await outer.release()
      await h.rejects(outer.release(), 'LOCK_NOT_OWNED')
    },
  },
  {
    id: 'REEN-4',
    title: 'another task of the same client is excluded like any other',
    kind: 'required',
    async run(h) {
      const { locks } = await h.client()
      const lock = locks.lock(h.name())
      const lease = await lock.acquire()
      assert.equal(await lock.tryAcquire(), null)
      await h.rejects(lock.acquire({ waitMs: 0 }), 'LOCK_TIMEOUT')
      await lease.release()
    },
  },
  {
    id: 'REEN-5',
    title: 'an explicit owner re-enters its own hold and no other',
    kind: 'required',
    async run(h) {
      const { locks } = await h.client()
      const other = await h.client()
      const lock = h.name()
      const first = await locks.lock(lock).acquire({ owner: 'anna' })
      const again = await locks.lock(lock).tryAcquire({ owner: 'anna' })
      assert.equal(again?.fence, first.fence)
      assert.equal(await locks.lock(lock).tryAcquire({ owner: 'berta' }), null)
      // Owners belong to one client: another client cannot join by using the same owner.
      assert.equal(await other.locks.lock(lock).tryAcquire({ owner: 'anna' }), null)
      await again?.release()
      await first.release()
    },
  },
  {
    id: 'REEN-6',
    title: 'the scope survives awaits, timers and turns of the event loop',
    kind: 'required',
    async run(h) {
      const { locks } = await h.client()
      const lock = h.name()
      await locks.with(lock, async ({ fence }) => {
        await delay(5)
        await turn()
        await Promise.resolve()
        const inner = await locks.lock(lock).tryAcquire()
        assert.equal(inner?.fence, fence)
        await inner?.release()
      })
      await h.free(lock)
    },
  },
  {
    id: 'REEN-7',
    title: 'concurrent branches of a callback share its lock and exclude each other on any other',
    kind: 'required',
    async run(h) {
      const { locks } = await h.client()
      const outer = h.name('outer')
      const inner = h.name('inner')
      let inside = 0
      let most = 0
      await locks.with(outer, async ({ fence }) => {
        const branch = (entered?: () => void): Promise<void> =>
          locks.with(inner, { waitMs: h.ms(20_000) }, async () => {
            await locks.with(outer, (again) => assert.equal(again.fence, fence))
            most = Math.max(most, ++inside)
            entered?.()
            await delay(2)
            inside -= 1
          })
        const first = new Promise<void>((resolve, reject) => void branch(resolve).catch(reject))
        await first
        // Requested while a sibling holds it, and then repeatedly.
        await Promise.all([branch(), branch(), branch()])
      })
      assert.equal(most, 1, 'two branches held the inner lock at once')
      await h.free(outer)
      await h.free(inner)
    },
  },
  {
    id: 'REEN-8',
    title: 're-entry costs no round trip to the store',
    kind: 'required',
    async run(h) {
      const { locks, faults } = await h.client()
      const lock = h.name()
      await locks.with(lock, async () => {
        const before = { ...faults.calls }
        for (let n = 0; n < 10; n += 1) await locks.with(lock, () => undefined)
        assert.deepEqual({ ...faults.calls, renew: 0 }, { ...before, renew: 0 })
      })
      assert.equal(faults.calls.attempt, 1)
      assert.equal(faults.calls.release, 1)
    },
  },
  {
    id: 'REEN-9',
    title: 'a context that outlives its callback has no lock to re-enter',
    kind: 'required',
    async run(h) {
      const { locks } = await h.client()
      const other = await h.client()
      const lock = h.name()
      let over: (() => void) | undefined
      let detached: Promise<unknown> | undefined
      await locks.with(lock, () => {
        const ended = new Promise<void>((resolve) => (over = resolve))
        detached = ended.then(() => locks.lock(lock).tryAcquire())
      })
      const successor = await other.locks.lock(lock).acquire()
      over?.()
      assert.equal(await detached, null)
      await successor.release()
    },
  },
]
