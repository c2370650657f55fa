import assert from 'node:assert/strict'
import { inspect } from 'node:util'
import { randomUUID } from 'node:crypto'
import { setTimeout as pass } from 'node:timers/promises'
import { newAttemptId } from '../../adapter/attempt-id.ts'
import { isLockError } from '../../adapter/lock-error.ts'
import { writeHandover } from '../../api/serialized-lease.ts'
import type { Rule } from '../rule.ts'
import { textsIn } from './observe.ts'
import { assertSoleHolder, takeOverMs } from './steps.ts'

export const handOver: readonly Rule[] = [
  {
    id: 'HAND-1',
    title: 'a serialised lease continues in another client: same fence, held, renewed and released there',
    kind: 'optional',
    needs: ['handover'],
    async run(h) {
      const [from, to] = [await h.client(), await h.client()]
      const lock = h.name()
      const given = await from.locks.lock(lock).acquire({ ttlMs: h.ttlMs })
      const lease = await to.locks.resume(given.serialize())
      assert.equal(lease.fence, given.fence)
      await assertSoleHolder(h, lease)
      await pass(h.ttlMs * 1.5)
      await assertSoleHolder(h, lease)
      await lease.release()
      await h.free(lock)
    },
  },
  {
    id: 'HAND-2',
    title: 'a text is resumed once: every other client gets LOCK_LOST, and the first one keeps the lock',
    kind: 'optional',
    needs: ['handover'],
    async run(h) {
      const from = await h.client()
      const heirs = await Promise.all(Array.from({ length: 3 }, () => h.client()))
      const given = await from.locks.lock(h.name()).acquire()
      const text = given.serialize()
      const outcomes = await Promise.allSettled(heirs.map(({ locks }) => locks.resume(text)))
      const won = outcomes.filter((outcome) => outcome.status === 'fulfilled')
      assert.equal(won.length, 1, `${won.length} of ${heirs.length} resumed it`)
      for (const { locks } of [from, ...heirs]) await h.rejects(locks.resume(text), 'LOCK_LOST')
      for (const { value } of won) {
        assert.equal(value.fence, given.fence)
        await assertSoleHolder(h, value)
      }
    },
  },
  {
    id: 'HAND-3',
    title: 'a lease resumed in another process outlives the process it came from',
    kind: 'optional',
    needs: ['handover', 'processes'],
    async run(h) {
      const lock = h.name()
      const [from, to, { locks }] = [
        await h.child({ ttlMs: h.ttlMs }),
        await h.child({ ttlMs: h.ttlMs }),
        await h.client(),
      ]
      const given = await from.call('acquire', { lock })
      const text = await from.call('serialize', given)
      const resumed = await to.call('resume', { text })
      assert.equal(resumed.fence, given.fence)
      await from.kill()
      await pass(h.ttlMs * 1.5)
      await to.call('assertHeld', resumed)
      const stolen = await locks.lock(lock).tryAcquire()
      if (stolen !== null) assert.equal((await to.call('state', resumed)).state, 'lost', 'two holders')
      await to.call('assertHeld', resumed)
      await to.call('release', resumed)
      await h.free(lock)
    },
  },
  {
    id: 'HAND-4',
    title: 'after serialize the old lease rejects with LOCK_NOT_OWNED and frees nothing',
    kind: 'optional',
    needs: ['handover'],
    async run(h) {
      const [from, to] = [await h.client(), await h.client()]
      const given = await from.locks.lock(h.name()).acquire()
      const text = given.serialize()
      assert.throws(() => given.assertHeld(), { code: 'LOCK_NOT_OWNED' })
      assert.equal(given.state, 'released')
      await h.rejects(given.release(), 'LOCK_NOT_OWNED')
      await h.rejects(given.extend(), 'LOCK_NOT_OWNED')
      await from.locks.close()
      const lease = await to.locks.resume(text)
      assert.equal(lease.fence, given.fence)
      await assertSoleHolder(h, lease)
    },
  },
  {
    id: 'HAND-5',
    title: 'a text resumed after its ttl is LOCK_LOST, whether the name is free or taken by then',
    kind: 'optional',
    needs: ['handover', 'lease'],
    async run(h) {
      const [from, to, other] = [await h.client(), await h.client(), await h.client()]
      const lock = h.name()
      const text = (await from.locks.lock(lock).acquire({ ttlMs: h.ttlMs })).serialize()
      await h.eventually('the lease expires', takeOverMs(h), async () => !(await to.locks.inspect(lock)).held)
      await h.rejects(to.locks.resume(text), 'LOCK_LOST')
      const lease = await other.locks.lock(lock).tryAcquire()
      assert.ok(lease, 'the name is not free')
      await h.rejects(to.locks.resume(text), 'LOCK_LOST')
      await assertSoleHolder(h, lease)
    },
  },
  {
    id: 'HAND-6',
    title: 'without hand-over, serialize and resume are LOCK_UNSUPPORTED, and the lease stays held',
    kind: 'optional',
    needs: ['no handover'],
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lease = await holder.locks.lock(h.name()).acquire()
      assert.throws(() => lease.serialize(), { code: 'LOCK_UNSUPPORTED' })
      await assertSoleHolder(h, lease)
      const { name, owner } = lease
      const attemptId = newAttemptId(randomUUID())
      const text = writeHandover({ name, owner, fence: 1n, attemptId, ttlMs: h.ttlMs, lockDelayMs: 0 })
      await h.rejects(other.locks.resume(text), 'LOCK_UNSUPPORTED')
      await assertSoleHolder(h, lease)
    },
  },
  {
    id: 'HAND-7',
    title:
      'what inspect, errors, events and a logged lease show of a holder is not enough to resume its lease',
    kind: 'optional',
    needs: ['handover'],
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const shown: unknown[] = []
      for (const event of ['acquire', 'contended', 'release', 'lost', 'jeopardy'] as const)
        for (const { locks } of [holder, other]) locks.on(event, (payload) => void shown.push(payload))
      const lease = await holder.locks.lock(lock).acquire()
      const busy = other.locks.lock(lock).acquire({ waitMs: 1 })
      shown.push(await busy.catch((error: unknown) => error), await other.locks.inspect(lock))
      if (h.capabilities.list) shown.push(await other.locks.list())
      const { owner, fence, sequencer } = lease
      const written = [...shown, lease].flatMap((one) => [
        JSON.stringify(one),
        inspect(one, { showHidden: true }),
      ])
      const texts = new Set(textsIn([shown, lock, owner, sequencer, lease.signal, written]))
      assert.ok(texts.has(owner), 'the owner is shown nowhere')
      for (const attemptId of texts) {
        const text = writeHandover({ name: lock, owner, fence, attemptId, ttlMs: h.ttlMs, lockDelayMs: 0 })
        const outcome: unknown = await other.locks.resume(text).catch((error: unknown) => error)
        const refused = isLockError(outcome, 'LOCK_INVALID_ARGUMENT') || isLockError(outcome, 'LOCK_LOST')
        assert.ok(refused, `the lease was resumed by ${attemptId}, which everybody can see`)
      }
      await assertSoleHolder(h, lease)
    },
  },
]
