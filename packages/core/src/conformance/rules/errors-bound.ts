import assert from 'node:assert/strict'
import { LockError } from '../../adapter/lock-error.ts'
import type { Harness, TestClient } from '../harness.ts'
import type { Rule } from '../rule.ts'
import { assertHolder, assertInTime, inTime, lockError, pass, soonFree, wired } from './observe.ts'

const STORE_MS = 1_500
/** The first call of a client, and calls that find what an earlier one left behind. */
const CALLS = 3

/** Fails the rule unless every call takes `storeTimeoutMs`: not less, since the store may recover, and not more. */
async function takesTheBound(h: Harness, { locks }: TestClient): Promise<void> {
  const lock = locks.lock(h.name())
  const storeTimeoutMs = h.ms(STORE_MS)
  for (let call = 1; call <= CALLS; call += 1) {
    const calledAt = performance.now()
    await lockError(lock.tryAcquire(), 'LOCK_UNAVAILABLE')
    const tookMs = performance.now() - calledAt
    assert.ok(tookMs >= storeTimeoutMs * 0.9, `call ${call} gave up after ${Math.round(tookMs)} ms`)
    await assertInTime(`the end of call ${call}`, storeTimeoutMs + h.ms(1_000), tookMs)
  }
}

/** How long a try goes on: while the store may recover, and not at all where that cannot help. */
export const boundErrors: readonly Rule[] = [
  {
    id: 'ERR-14',
    title: 'tryAcquire retries a failing store for storeTimeoutMs, on the first call and every later one',
    kind: 'required',
    async run(h) {
      const client = await h.client({ storeTimeoutMs: h.ms(STORE_MS) })
      client.faults.inject('attempt', 'fail')
      client.faults.inject('withdraw', 'fail')
      await takesTheBound(h, client)
      client.faults.heal()
      const { locks, faults } = await h.client()
      faults.inject('attempt', 'fail', 2)
      const lease = await locks.lock(h.name()).tryAcquire()
      assert.ok(lease !== null, 'a free lock was reported as held')
      await assertHolder(h, lease)
      assert.equal(faults.calls.attempt, 3)
    },
  },
  {
    id: 'ERR-15',
    title: 'an error that a retry cannot fix fails a call at once, and the store is asked once',
    kind: 'required',
    async run(h) {
      const { locks, faults } = await h.client()
      const refusal = new LockError('LOCK_INVALID_ARGUMENT', 'injected: the password is wrong')
      const lease = await locks.lock(h.name('held')).acquire()
      for (const method of ['attempt', 'withdraw', 'release'] as const)
        faults.inject(method, { rejects: refusal })
      const { attempt, release } = faults.calls
      const name = h.name()
      for (const call of [locks.lock(name).tryAcquire(), locks.lock(name).acquire(), lease.release()])
        assert.equal(await lockError(call, 'LOCK_INVALID_ARGUMENT'), refusal)
      assert.deepEqual([faults.calls.attempt - attempt, faults.calls.release - release], [2, 1])
      faults.heal()
      await lease.release()
      await h.free(lease.name)
    },
  },
  {
    id: 'ERR-16',
    title: 'a server that refuses connections is retried for storeTimeoutMs, and used if it is back in time',
    kind: 'required',
    needs: ['wire'],
    timeoutMs: 60_000,
    async run(h) {
      const options = { storeTimeoutMs: h.ms(STORE_MS) }
      const fresh = await h.wireClient(options)
      h.onEnd(async () => fresh.proxy.pass())
      for (const client of [fresh, await wired(h, options)]) {
        client.proxy.refuse()
        await takesTheBound(h, client)
      }
      const patient = await wired(h, { storeTimeoutMs: h.ms(20_000) })
      const lock = h.name()
      patient.proxy.refuse()
      const trying = patient.locks.lock(lock).tryAcquire()
      await pass(h.ms(500))
      patient.proxy.pass()
      const lease = await inTime('a lease of the store that came back', h.ms(15_000), trying)
      assert.ok(lease !== null, 'a free lock was reported as held')
      await assertHolder(h, lease)
      await lease.release()
      await soonFree(h, lock)
    },
  },
]
