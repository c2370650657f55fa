import assert from 'node:assert/strict'
import { join } from 'node:path'
import { checkHistory } from '../check-history.ts'
import { contend } from '../contend.ts'
import { createRecorder, readHistory } from '../history.ts'
import type { Rule } from '../rule.ts'
import {
  acquireAfter,
  assertHolder,
  assertStillHeld,
  inTime,
  lossOf,
  pass,
  soonFree,
  wired,
} from './observe.ts'

/** The same losses on the wire, where the client library reconnects and may resend. */
export const wireLosses: readonly Rule[] = [
  {
    id: 'LOST-9',
    title: 'the network drops the reply to an acquire: the acquire still gets the lock',
    kind: 'required',
    needs: ['wire'],
    async run(h) {
      const { locks, proxy } = await wired(h)
      const lock = h.name()
      const swallowed = proxy.swallowNextReply()
      const lease = await locks.lock(lock).acquire({ waitMs: h.ttlMs * 10 })
      await inTime('the fault', h.ms(1_000), swallowed)
      await assertStillHeld(h, lease)
      await assertHolder(h, lease)
      await lease.release()
      await soonFree(h, lock)
    },
  },
  {
    id: 'LOST-10',
    title: 'the network drops the reply to a renewal: the lease is kept under its fence',
    kind: 'required',
    needs: ['wire', 'lease'],
    async run(h) {
      const { locks, faults, proxy } = await wired(h, { ttlMs: h.ttlMs * 2 })
      const lock = h.name()
      const lease = await locks.lock(lock).acquire()
      const firstDeadline = performance.now() + lease.remainingMs
      const swallowed = proxy.swallowNextReply()
      await inTime('the fault', h.ttlMs * 2, swallowed)
      await h.eventually('a renewal', h.ttlMs * 2, () => faults.calls.renew > 0)
      await pass(firstDeadline + h.ttlMs / 5 - performance.now())
      await assertStillHeld(h, lease)
      await assertHolder(h, lease)
      await lease.release()
      await soonFree(h, lock)
    },
  },
  {
    id: 'LOST-11',
    title: 'the network drops the reply to a release: the release succeeds and the name is free',
    kind: 'required',
    needs: ['wire'],
    async run(h) {
      const { locks, proxy } = await wired(h)
      const lock = h.name()
      const lease = await locks.lock(lock).acquire()
      const swallowed = proxy.swallowNextReply()
      await lease.release()
      await inTime('the fault', h.ms(1_000), swallowed)
      await soonFree(h, lock)
    },
  },
  {
    id: 'LOST-20',
    title:
      'a try that is cut off for longer than its lost grant lasts is granted the lock, in spite of a lock-delay',
    kind: 'optional',
    needs: ['wire', 'lock-delay', 'lease'],
    async run(h) {
      const lockDelayMs = h.ttlMs * 20
      const { locks, proxy } = await wired(h, { storeTimeoutMs: lockDelayMs })
      const { adapter } = h.adapter()
      const lock = h.name()
      const swallowed = proxy.swallowNextReply()
      const outcome = locks.lock(lock).tryAcquire({ ttlMs: h.ttlMs, lockDelayMs })
      await inTime('the fault', h.ms(1_000), swallowed)
      proxy.refuse()
      await h.eventually('the end of the lost grant', h.ttlMs + h.ms(1_000), async () => {
        const { held, remainingMs = 0 } = await adapter.inspect(lock)
        return held && remainingMs < lockDelayMs
      })
      proxy.pass()
      const lease = await outcome
      assert.ok(lease, 'it was refused the name, which nobody but itself had been granted')
      await assertHolder(h, lease)
      await lease.release()
      await soonFree(h, lock)
    },
  },
  {
    id: 'LOST-12',
    title:
      'connections reset in mid-request lose no update, let in no second holder and leave nothing behind',
    kind: 'stochastic',
    needs: ['wire', 'fencing'],
    timeoutMs: 60_000,
    async run(h) {
      // Leases too long to wait for: after a lost grant, a later wait would end with LOCK_TIMEOUT.
      const [shaky, steady] = [await wired(h), await h.client()]
      const names = [h.name(), h.name(), h.name()]
      const directory = await h.directory()
      let [grants, resets] = [0, 0]
      shaky.locks.on('acquire', ({ outcome }) => {
        if (outcome !== 'acquired') return
        grants += 1
        if (grants % 5 !== 0 || resets >= 8) return
        resets += 1
        shaky.proxy.reset()
      })
      const files = ['shaky', 'steady'].map((name) => join(directory, name))
      const recorders = files.map((file) => createRecorder(file, file))
      const work = names.map(async (lock) => {
        let count = 0
        const counter = { read: () => count, write: (value: number) => void (count = value) }
        const options = { lock, tasks: 2, cycles: 15, waitMs: h.ms(20_000), counter }
        const done = [shaky, steady].map(({ locks }, n) => {
          const recorder = recorders[n]
          assert.ok(recorder)
          return contend(locks, { ...options, recorder })
        })
        const updates = (await Promise.all(done)).reduce((sum, part) => sum + part.updates, 0)
        assert.equal(count, updates, 'updates were lost')
      })
      await Promise.all(work)
      for (const recorder of recorders) recorder.close()
      assert.ok(resets >= 3, `only ${resets} resets`)
      const floors = { grants: 60, contendedWaits: 30, faults: 0 }
      const violations = checkHistory(readHistory(files), { floors })
      assert.deepEqual(
        violations.map(({ invariant, message }) => `${invariant} ${message}`),
        [],
      )
      for (const lock of names) await soonFree(h, lock, h.ttlMs * 2 + h.ms(3_000))
    },
  },
  {
    id: 'LOST-13',
    title: 'replies that arrive byte by byte are understood',
    kind: 'required',
    needs: ['wire'],
    async run(h) {
      // Byte by byte is slow on a busy machine.
      const [sliced, other] = [await wired(h), await h.client()]
      const lock = h.name()
      sliced.proxy.slice()
      const lease = await sliced.locks.lock(lock).acquire()
      await assertHolder(h, lease)
      await lease.extend()
      const { held, holder } = await sliced.locks.inspect(lock)
      assert.ok(held)
      if (h.capabilities.fencing !== 'none') assert.equal(holder?.fence, lease.fence)
      await lease.release()
      const next = await other.locks.lock(lock).acquire({ waitMs: h.ms(5_000) })
      assert.equal(await sliced.locks.lock(lock).tryAcquire(), null)
      await next.release()
      await soonFree(h, lock)
    },
  },
  {
    id: 'LOST-14',
    title: 'on a slow network a lease ends at the client before the store grants the name again',
    kind: 'required',
    needs: ['wire', 'lease'],
    async run(h) {
      const slow = await wired(h, { ttlMs: h.ttlMs, storeTimeoutMs: h.ttlMs * 6 })
      const other = await h.client()
      const [late, tooLate] = [h.name(), h.name()]
      // An adapter may need more than one round trip for a grant: two still leave most of the lease.
      const delayMs = h.ttlMs / 10
      slow.proxy.delay(delayMs)
      const lease = await slow.locks.lock(late).acquire({ renew: false })
      const most = h.ttlMs - delayMs * 2
      assert.ok(lease.remainingMs <= most, `${lease.remainingMs} ms remain, ${most} at most are left`)
      await Promise.all([
        inTime('the abort', h.ttlMs * 3, lossOf(lease)),
        acquireAfter(other, lease, h.ttlMs * 4),
      ])
      slow.proxy.delay(h.ttlMs / 2)
      await h.rejects(slow.locks.lock(tooLate).tryAcquire({ retry: { attempts: 1 } }), 'LOCK_UNAVAILABLE')
      slow.proxy.pass()
      await soonFree(h, tooLate, h.ttlMs * 2)
    },
  },
  {
    id: 'LOST-15',
    title: 'a session whose connection breaks is either kept under its fence or reported as lost',
    kind: 'optional',
    needs: ['wire', 'session'],
    async run(h) {
      const { locks, proxy } = await wired(h)
      const lock = h.name()
      const lease = await locks.lock(lock).acquire()
      const lost = lossOf(lease)
      proxy.reset()
      const over = await Promise.race([lost.then(() => true), pass(h.ttlMs * 2).then(() => false)])
      if (over) return soonFree(h, lock, h.ttlMs * 2)
      await assertStillHeld(h, lease)
      await assertHolder(h, lease)
      await lease.release()
      await soonFree(h, lock)
    },
  },
]
