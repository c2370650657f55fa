import assert from 'node:assert/strict'
import { isLockError, LockError } from '../../adapter/lock-error.ts'
import type { Rule } from '../rule.ts'
import { boundErrors } from './errors-bound.ts'
import { wireErrors } from './errors-wire.ts'
import { acquireEnds } from './acquire-ends.ts'
import {
  assertHolder,
  breakHold,
  seenWaiting,
  eventOf,
  inTime,
  lockError,
  lossOf,
  rejectsWith,
  soonFree,
} from './observe.ts'

export const errors: readonly Rule[] = [
  {
    id: 'ERR-1',
    title: 'a store that fails is LOCK_UNAVAILABLE with its cause, never reported as held',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client({ storeTimeoutMs: h.ms(800) })]
      const [free, taken] = [h.name(), h.name()]
      const lease = await holder.locks.lock(taken).acquire()
      other.faults.inject('attempt', 'fail')
      let contended = 0
      other.locks.on('contended', () => (contended += 1))
      for (const name of [free, taken]) {
        const lock = other.locks.lock(name)
        const once = { retry: { attempts: 1 } }
        await h.rejects(lock.tryAcquire(once), 'LOCK_UNAVAILABLE')
        const tries = [lock.tryAcquire(), lock.acquire({ waitMs: 0 }), lock.acquire({ waitMs: h.ms(400) })]
        for (const { cause } of await Promise.all(tries.map((one) => lockError(one, 'LOCK_UNAVAILABLE'))))
          assert.match(String(cause), /injected: attempt failed/)
      }
      assert.equal(contended, 0, 'an outage was reported as contention')
      await assertHolder(h, lease)
    },
  },
  {
    id: 'ERR-2',
    title: 'a store that is silent is LOCK_UNAVAILABLE within storeTimeoutMs, for every call',
    kind: 'required',
    async run(h) {
      const { locks, faults } = await h.client({ storeTimeoutMs: h.ms(800) })
      const [lock, held] = [h.name(), h.name()]
      const lease = await locks.lock(held).acquire()
      for (const method of ['attempt', 'withdraw', 'inspect', 'release'] as const)
        faults.inject(method, 'hang')
      const outcomes = [
        locks.lock(lock).tryAcquire(),
        locks.lock(h.name()).acquire({ waitMs: h.ms(60_000) }),
        locks.with(h.name(), () => assert.fail('it ran')),
        locks.inspect(lock),
        lease.release(),
      ].map((outcome) => h.rejects(outcome, 'LOCK_UNAVAILABLE'))
      await inTime('an answer to every call', h.ms(5_000), Promise.all(outcomes))
      faults.heal()
      await lease.release()
      await h.free(held)
    },
  },
  {
    id: 'ERR-4',
    title: 'every error has a code and the lock it is about, and is recognised without instanceof',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const timeout = await lockError(other.locks.lock(lock).acquire({ waitMs: 0 }), 'LOCK_TIMEOUT')
      await lease.release()
      const notOwned = await lockError(lease.release(), 'LOCK_NOT_OWNED')
      other.faults.inject('attempt', 'fail', 1)
      const once = { retry: { attempts: 1 } }
      const outage = await lockError(other.locks.lock(lock).tryAcquire(once), 'LOCK_UNAVAILABLE')
      const loser = await h.client({ ttlMs: h.ttlMs })
      const doomed = await loser.locks.lock(lock).acquire({ waitMs: h.ttlMs })
      loser.faults.inject('renew', 'hang')
      await inTime('the loss', h.ttlMs * 3, lossOf(doomed))
      const lost = await lockError(doomed.release(), 'LOCK_LOST')
      for (const error of [timeout, notOwned, outage, lost]) {
        assert.equal(error.lock, lock)
        assert.equal(error.name, 'LockError')
        assert.ok(error.message.includes(lock) && String(error.stack).includes('LockError'))
      }
      // Errors from another copy of this package have the same brand, and nothing else has it.
      assert.ok(isLockError({ [Symbol.for('@locks/LockError')]: true, code: 'LOCK_LOST' }, 'LOCK_LOST'))
      assert.ok(Symbol.for('@locks/LockError') in new LockError('LOCK_LOST', ''))
      assert.equal(isLockError(Object.assign(new Error('alike'), { code: 'LOCK_LOST' })), false)
    },
  },
  {
    id: 'ERR-6',
    title: 'a release that fails replaces neither the result nor the error of a with callback',
    kind: 'required',
    async run(h) {
      const client = await h.client({ storeTimeoutMs: h.ms(800) })
      const { locks, faults } = client
      const own = new Error("the callback's own")
      for (const fault of ['fail', 'hang'] as const) {
        const [returns, throws] = [h.name(), h.name()]
        const reported = eventOf(client, 'release', returns)
        faults.inject('release', fault)
        const value = locks.with(returns, () => 42)
        const failing = locks.with(throws, () => Promise.reject(own))
        const rejected = rejectsWith(failing, own)
        const [result] = await inTime('the outcomes', h.ms(5_000), Promise.all([value, rejected]))
        assert.equal(result, 42)
        assert.ok(isLockError((await reported).error, 'LOCK_UNAVAILABLE'), 'the failure was not reported')
        faults.heal()
      }
    },
  },
  {
    id: 'ERR-7',
    title: 'LOCK_TIMEOUT names the holder, if the store knows it',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire({ owner: 'the owner', label: 'the label' })
      const known = (await other.locks.inspect(lock)).holder
      const { adapter, request } = h.adapter()
      const answer = await adapter.attempt(request(lock))
      const named = 'busy' in answer && answer.holder !== undefined
      for (const { locks } of named ? [holder, other] : [holder])
        for (const waitMs of [0, h.ms(1_000)]) {
          const error = await lockError(locks.lock(lock).acquire({ waitMs }), 'LOCK_TIMEOUT')
          assert.equal(error.holder?.owner, 'the owner')
          assert.equal(error.holder?.metadata?.label, known?.metadata?.label)
          if (h.capabilities.fencing !== 'none') assert.equal(error.holder?.fence, lease.fence)
          assert.ok(error.message.includes('the owner'))
          if (error.holder?.metadata !== undefined)
            assert.ok(error.message.includes(`pid ${process.pid}`) && error.message.includes('the label'))
        }
      assert.equal(known?.metadata?.label, 'the label')
    },
  },
  {
    id: 'ERR-8',
    title: "an abort rejects with the signal's own reason, of any type and at any time",
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      for (const reason of [new Error('mine'), 'a text', { a: 1 }, 0]) {
        const before = other.locks.lock(lock).acquire({ signal: AbortSignal.abort(reason) })
        await rejectsWith(before, reason)
        const waits = eventOf(other, 'contended', lock)
        const controller = new AbortController()
        const waiting = other.locks.lock(lock).acquire({ signal: controller.signal, waitMs: h.ms(20_000) })
        await seenWaiting(waiting, waits)
        controller.abort(reason)
        await rejectsWith(waiting, reason)
      }
      const { attempt } = other.faults.calls
      other.faults.inject('attempt', 'hang')
      const controller = new AbortController()
      const hanging = other.locks.lock(lock).tryAcquire({ signal: controller.signal })
      await h.eventually('the try', h.ms(2_000), () => other.faults.calls.attempt > attempt)
      controller.abort()
      await rejectsWith(hanging, controller.signal.reason)
      await lease.release()
      await soonFree(h, lock)
    },
  },
  {
    id: 'ERR-10',
    title: 'a lock lost during a with callback surfaces, whether the callback returns or throws',
    kind: 'required',
    async run(h) {
      const { locks, faults } = await h.client({ ttlMs: h.ttlMs })
      const own = new Error("the callback's own")
      faults.inject('renew', 'hang')
      const swallowing = locks.with(h.name(), async (lease) => {
        await lossOf(lease)
        return 'as if nothing had happened'
      })
      const throwing = locks.with(h.name(), async (lease) => {
        await lossOf(lease)
        throw own
      })
      const within = h.ttlMs * 3 + h.ms(1_000)
      // Either of the two may end first.
      const losses = Promise.all([swallowing, throwing].map((work) => lockError(work, 'LOCK_LOST')))
      const [, thrown] = await inTime('the losses', within, losses)
      assert.equal(thrown?.cause, own)
    },
  },
  {
    id: 'ERR-12',
    title: 'a lock that another client got during a with callback surfaces at its end',
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const work = holder.locks.with(lock, async () => {
        await breakHold(h, holder, lock)
        return other.locks.lock(lock).acquire()
      })
      await h.rejects(work, 'LOCK_LOST')
      assert.equal(await holder.locks.lock(lock).tryAcquire(), null)
    },
  },
  {
    id: 'ERR-13',
    title: 'an invalid answer of the adapter is LOCK_UNAVAILABLE, grants nothing and leaves nothing behind',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const stranger = h.adapter().request(lock)
      const grants = [
        ...[{ fence: -1n }, { fence: 2n ** 63n }, { fence: 7 }],
        ...[{ ttlMs: NaN }, { ttlMs: 1e12 }, { ttlMs: 0 }],
        ...[{ attemptId: stranger.attemptId }, { name: h.name() }, { busy: true }],
      ]
      for (const spoilt of grants) {
        other.faults.inject('attempt', { spoilt })
        const once = other.locks.lock(lock).tryAcquire({ retry: { attempts: 1 } })
        const error = await lockError(once, 'LOCK_UNAVAILABLE')
        assert.ok(error.lock === lock && error.message.includes('the adapter is faulty'), error.message)
        other.faults.heal()
        await soonFree(h, lock)
      }
      const lease = await holder.locks.lock(lock).acquire()
      for (const spoilt of [{ retryInMs: NaN }, { retryInMs: Infinity }, { busy: 1 }, { holder: 'me' }]) {
        other.faults.inject('attempt', { spoilt })
        const refused = other.locks.lock(lock).acquire({ waitMs: h.ms(100) })
        await h.rejects(inTime('a refusal', h.ms(5_000), refused), 'LOCK_UNAVAILABLE')
        other.faults.heal()
      }
      await assertHolder(h, lease)
      await lease.release()
      await soonFree(h, lock)
    },
  },
  ...boundErrors,
  ...acquireEnds,
  ...wireErrors,
]
