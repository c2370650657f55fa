import assert from 'node:assert/strict'
import type { Rule } from '../rule.ts'
import type { Grant } from '../../adapter/spi.ts'
import { assertHolder, assertStillHeld } from './observe.ts'
import { takeWhenOver } from './steps.ts'

export const ownership: readonly Rule[] = [
  {
    id: 'OWN-1',
    title: 'a release with a foreign attempt id frees nothing and returns not-held',
    kind: 'required',
    async run(h) {
      const holder = h.adapter()
      const stranger = h.adapter()
      const lock = h.name()
      const held = await holder.take(holder.request(lock))
      const forged = { ...held, attemptId: stranger.request(lock).attemptId }
      assert.equal(await stranger.adapter.release(forged), 'not-held')
      await assertHolder(h, held)
    },
  },
  {
    id: 'OWN-2',
    title: 'a renewal with a foreign attempt id is refused and extends nothing',
    kind: 'required',
    async run(h) {
      const holder = h.adapter()
      const stranger = h.adapter()
      const lock = h.name()
      const held = await holder.take(holder.request(lock))
      const forged = { ...held, attemptId: stranger.request(lock).attemptId }
      const renewal = { grant: forged, ttlMs: h.ttlMs * 100, lockDelayMs: 0 }
      assert.equal(await stranger.renew(renewal), 'lost')
      await assertHolder(h, held)
      const { remainingMs = 0 } = await stranger.adapter.inspect(lock)
      assert.ok(remainingMs <= h.lastingMs, `prolonged to ${remainingMs} ms`)
    },
  },
  {
    id: 'OWN-3',
    title: "an expired owner cannot release its successor's lock",
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const first = h.adapter()
      const second = h.adapter()
      const lock = h.name()
      const stale = await first.take(first.request(lock, { ttlMs: h.ttlMs }))
      const held = await takeWhenOver(h, second, lock)
      assert.equal(await first.adapter.release(stale), 'not-held')
      await assertHolder(h, held)
    },
  },
  {
    id: 'OWN-4',
    title: "an expired owner cannot renew itself back, nor extend its successor's lease",
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const first = h.adapter()
      const second = h.adapter()
      const lock = h.name()
      const stale = await first.take(first.request(lock, { ttlMs: h.ttlMs }))
      const held = await takeWhenOver(h, second, lock)
      const renewal = { grant: stale, ttlMs: h.ttlMs * 100, lockDelayMs: 0 }
      assert.equal(await first.renew(renewal), 'lost')
      await assertHolder(h, held)
      const { remainingMs = 0 } = await first.adapter.inspect(lock)
      assert.ok(remainingMs <= h.lastingMs, `prolonged to ${remainingMs} ms`)
    },
  },
  {
    id: 'OWN-5',
    title: 'withdrawing one attempt leaves the hold of another untouched',
    kind: 'required',
    async run(h) {
      const holder = h.adapter()
      const other = h.adapter()
      const lock = h.name()
      const held = await holder.take(holder.request(lock))
      const request = other.request(lock, { willWait: true })
      assert.ok('busy' in (await other.adapter.attempt(request)))
      await other.adapter.withdraw(request)
      await other.adapter.withdraw(request)
      await other.adapter.withdraw(other.request(lock))
      await assertHolder(h, held)
      assert.equal(await holder.renew({ grant: held, ttlMs: h.ttlMs, lockDelayMs: 0 }), 'renewed')
    },
  },
  {
    id: 'OWN-6',
    title: 'a second release of a lease is refused and frees no successor',
    kind: 'required',
    async run(h) {
      const first = await h.client()
      const second = await h.client()
      const lock = h.name()
      const lease = await first.locks.lock(lock).acquire()
      await lease.release()
      const successor = await second.locks.lock(lock).acquire()
      await h.rejects(lease.release(), 'LOCK_NOT_OWNED')
      await assertHolder(h, successor)
      await assertStillHeld(h, successor)
      await successor.release()
    },
  },
  {
    id: 'OWN-7',
    title: 'only one release of a hold returns released; releasing a free name returns not-held',
    kind: 'required',
    async run(h) {
      const { adapter, request, take } = h.adapter()
      const lock = h.name()
      const grant = await take(request(lock))
      assert.equal(await adapter.release(grant), 'released')
      assert.equal(await adapter.release(grant), 'not-held')
      const withdrawn = request(lock)
      const taken = await take(withdrawn)
      await adapter.withdraw(withdrawn)
      assert.equal(await adapter.release(taken), 'not-held')
      await h.free(lock)
    },
  },
  {
    id: 'OWN-8',
    title: 'every acquire is a separate owner: a shared lock object excludes its own users',
    kind: 'required',
    async run(h) {
      const { locks } = await h.client()
      const lock = locks.lock(h.name())
      let inside = 0
      let most = 0
      const fences = await Promise.all(
        Array.from({ length: 10 }, () =>
          lock.with({ waitMs: h.ms(20_000) }, async ({ fence }) => {
            most = Math.max(most, ++inside)
            await new Promise((resolve) => setImmediate(resolve))
            inside -= 1
            return fence
          }),
        ),
      )
      assert.equal(most, 1)
      if (h.capabilities.fencing !== 'none') assert.equal(new Set(fences).size, 10)
    },
  },
  {
    id: 'OWN-9',
    title: 'two attempts of one client are two holders: the second is refused while the first holds',
    kind: 'required',
    async run(h) {
      const { adapter, request, take } = h.adapter()
      const lock = h.name()
      const held: Grant = await take(request(lock, { owner: 'same' }))
      assert.ok('busy' in (await adapter.attempt(request(lock, { owner: 'same' }))))
      await assertHolder(h, { ...held, owner: 'same' })
    },
  },
  {
    id: 'OWN-10',
    title: "a late withdrawal of an earlier attempt does not touch the same client's next hold",
    kind: 'required',
    async run(h) {
      const { locks, faults } = await h.client({ storeTimeoutMs: h.ms(2_000) })
      const lock = h.name()
      const controller = new AbortController()
      faults.inject('attempt', 'swallow-reply', 1)
      const aborted = locks.lock(lock).acquire({ signal: controller.signal })
      controller.abort()
      await assert.rejects(aborted)
      const lease = await locks.lock(lock).acquire()
      // The aborted try fails at the latest now, and is then withdrawn once more.
      faults.heal()
      await h.eventually('the late withdrawal', h.ms(5_000), () => faults.calls.withdraw >= 2)
      await assertHolder(h, lease)
      await lease.release()
    },
  },
  {
    id: 'OWN-11',
    title: 'a broken hold that another client acquired and released ends as lost, not as released',
    kind: 'optional',
    needs: ['break'],
    async run(h) {
      const [holder, operator] = [await h.client(), await h.client()]
      const broken = async (lock: string): Promise<void> => {
        assert.ok(await operator.locks.lock(lock).break(), 'nothing to break')
        await operator.locks.lock(lock).with(() => undefined)
      }
      const lease = await holder.locks.lock(h.name()).acquire()
      await broken(lease.name)
      await h.rejects(lease.release(), 'LOCK_LOST')
      assert.equal(lease.state, 'lost')
      const lock = h.name()
      await h.rejects(
        holder.locks.lock(lock).with(() => broken(lock)),
        'LOCK_LOST',
      )
      await h.free(lock)
    },
  },
]
