import assert from 'node:assert/strict'
import type { Rule } from '../rule.ts'
import { seenWaiting, eventOf, inTime, lossOf } from './observe.ts'
import { assertRising, assertSoleHolder, startWaiting, takeOverMs } from './steps.ts'

export const operation: readonly Rule[] = [
  {
    id: 'OPER-1',
    title: 'a broken holder learns of it within its ttl, and cannot free its successor',
    kind: 'optional',
    needs: ['break'],
    async run(h) {
      const [holder, operator] = [await h.client({ ttlMs: h.ttlMs }), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const lost = lossOf(lease)
      const broken = await operator.locks.lock(lock).break()
      // If it was lost meanwhile, the store is right.
      if (broken === null) lease.assertHeld()
      assert.equal(broken?.owner, lease.owner)
      const next = await operator.locks.lock(lock).tryAcquire()
      assert.ok(next, 'a broken lock is not free')
      const bound = { ms: h.ttlMs + h.ms(250), from: 'ttlMs + 250 ms' }
      await inTime('the broken holder learns of it', bound, lost)
      await h.rejects(lease.release(), 'LOCK_LOST')
      await assertSoleHolder(h, next)
    },
  },
  {
    id: 'OPER-2',
    title: 'a broken lock goes to a waiter, under a higher fence',
    kind: 'optional',
    needs: ['break'],
    async run(h) {
      const [holder, waiter, operator] = [await h.client(), await h.client(), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const { granted } = await startWaiting(waiter.locks, lock, takeOverMs(h) * 2)
      await operator.locks.lock(lock).break()
      const next = await granted
      assertRising(h, [lease.fence, next.fence])
      await assertSoleHolder(h, next)
    },
  },
  {
    id: 'OPER-3',
    title: 'a break ends the inspected hold and no later one; for a free name it returns null',
    kind: 'optional',
    needs: ['break'],
    async run(h) {
      const [first, second, operator] = [await h.client(), await h.client(), h.adapter()]
      const lock = h.name()
      const { locks } = await h.client()
      assert.equal(await locks.lock(lock).break(), null)
      const before = await first.locks.lock(lock).acquire({ owner: 'the first' })
      const { holder } = await operator.adapter.inspect(lock)
      assert.ok(holder, 'a held lock has a holder')
      await before.release()
      const lease = await second.locks.lock(lock).acquire({ owner: 'the second' })
      assert.equal(await operator.adapter.break?.(lock, holder), 'not-held')
      if (h.capabilities.fencing !== 'none')
        assert.equal(await locks.lock(lock).break({ fence: before.fence }), null)
      // Ignored, the later hold would end.
      const misspelt: object = { fense: before.fence }
      await h.rejects(locks.lock(lock).break(misspelt), 'LOCK_INVALID_ARGUMENT')
      await assertSoleHolder(h, lease)
    },
  },
  {
    id: 'OPER-4',
    title: 'list shows the holds of this and other clients, and no free name',
    kind: 'optional',
    needs: ['list'],
    async run(h) {
      const [holder, operator] = [await h.client(), await h.client()]
      const [held, freed] = [h.name('held'), h.name('freed')]
      const lease = await holder.locks.lock(held).acquire({ owner: 'an owner' })
      await (await holder.locks.lock(freed).acquire()).release()
      const all = await operator.locks.list({ limit: 10_000 })
      const found = all.find(({ name }) => name === held)
      assert.equal(found?.holder?.owner, 'an owner')
      if (h.capabilities.fencing !== 'none') assert.equal(found?.holder?.fence, lease.fence)
      assert.equal(
        all.find(({ name }) => name === freed),
        undefined,
        'a free name is listed',
      )
      assert.ok((await operator.locks.list({ limit: 1 })).length <= 1, 'more than the limit')
    },
  },
  {
    id: 'OPER-5',
    title: 'without the capability, list is LOCK_UNSUPPORTED',
    kind: 'optional',
    needs: ['no list'],
    async run(h) {
      const { locks } = await h.client()
      await h.rejects(locks.list(), 'LOCK_UNSUPPORTED')
    },
  },
  {
    id: 'OPER-6',
    title: 'without the capability, break is LOCK_UNSUPPORTED, and the holder keeps the lock',
    kind: 'optional',
    needs: ['no break'],
    async run(h) {
      const [holder, operator] = [await h.client(), await h.client()]
      const lease = await holder.locks.lock(h.name()).acquire()
      await h.rejects(operator.locks.lock(lease.name).break(), 'LOCK_UNSUPPORTED')
      await assertSoleHolder(h, lease)
    },
  },
  {
    id: 'OPER-7',
    title: 'findings name their check and, unless their level is ok, what to do',
    kind: 'required',
    async run(h) {
      const { locks } = await h.client()
      for (const { check, level, message, advice } of await locks.diagnose()) {
        assert.match(check, /^[a-z][a-z0-9-]*$/)
        assert.ok(message !== '' && !message.includes('\n'), `${check} must say in one line what was found`)
        if (level !== 'ok') assert.ok(advice, `${check} must say what to do`)
        const { secret } = h.subject
        if (secret !== undefined)
          assert.ok(!`${message} ${advice}`.includes(secret), `${check} shows a secret`)
      }
    },
  },
  {
    id: 'OPER-8',
    title:
      'inspect lists the actual waiters, in order, since when they wait, and shows none of their secrets',
    kind: 'required',
    async run(h) {
      const [holder, ...others] = [await h.client(), await h.client(), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const stop = new AbortController()
      const waits: Promise<unknown>[] = []
      for (const [n, other] of others.entries()) {
        const contended = eventOf(other, 'contended', lock)
        const options = {
          label: `waiter ${n}`,
          owner: `owner ${n}`,
          waitMs: h.ms(60_000),
          signal: stop.signal,
        }
        const last = assert.rejects(other.locks.lock(lock).acquire(options))
        waits.push(last)
        await seenWaiting(last, contended)
      }
      const { adapter } = h.adapter()
      const labels = async (): Promise<string[] | undefined> =>
        (await adapter.inspect(lock)).waiting?.map(({ owner, metadata }) => `${metadata?.label} of ${owner}`)
      const expected = others.map((_, n) => `waiter ${n} of owner ${n}`)
      // A store that does not know its waiters does not list them.
      if ((await labels()) !== undefined) {
        await h.eventually('both are queued', h.ms(5_000), async () => (await labels())?.length === 2)
        const shown = (await labels()) ?? []
        assert.deepEqual(h.capabilities.fairness === 'fifo' ? shown : shown.toSorted(), expected)
        const state = await adapter.inspect(lock)
        const times = [state.holder?.since ?? 0, ...(state.waiting ?? []).map(({ since }) => since ?? NaN)]
        const inOrder = times.every(
          (since, n) => since >= (times[h.capabilities.fairness === 'fifo' ? n - 1 : 0] ?? 0),
        )
        assert.ok(
          inOrder,
          `the waiters must have waited since after the hold began, in order: ${times.join()}`,
        )
        const text = JSON.stringify(await holder.locks.inspect(lock))
        assert.ok(!/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}:\d/.test(text), 'an attempt id is shown')
      }
      stop.abort()
      await Promise.all(waits)
      await h.eventually('the queue is empty', h.ms(5_000), async () => ((await labels()) ?? []).length === 0)
      await lease.release()
    },
  },
]
