import assert from 'node:assert/strict'
import type { Rule } from '../rule.ts'
import { assertNotEarly, freesInTime } from './once-steps.ts'
import { pass } from './observe.ts'
import { takeWhenOver } from './steps.ts'

/** What a minimum hold must survive: lost and late replies, repeated calls, hand-over, and many callers at once. */
export const onceAtTheStore: readonly Rule[] = [
  {
    id: 'ONCE-9',
    title: 'a released attempt has nothing left in the store: no late call of it frees or extends the name',
    kind: 'optional',
    needs: ['min-hold'],
    async run(h) {
      const { adapter, request, take, renew } = h.adapter()
      const lock = h.name()
      const keepMs = h.ttlMs
      const wanted = request(lock)
      const grant = await take(wanted)
      const startedAt = performance.now()
      assert.equal(await adapter.release(grant, keepMs), 'released')
      const releasedBy = performance.now()
      const { ttlMs, lockDelayMs } = wanted
      assert.equal(await renew({ grant, ttlMs, lockDelayMs }), 'lost')
      await adapter.withdraw(wanted)
      await adapter.release(grant)
      await adapter.release(grant, h.lastingMs)
      assert.equal((await adapter.adopt?.(grant, request(lock))) ?? 'lost', 'lost')
      const again = await adapter.attempt(wanted)
      if ('fence' in again) assertNotEarly(startedAt, keepMs)
      else await adapter.withdraw(wanted)
      const waitsMs = Math.max(0, releasedBy + keepMs - performance.now())
      const bound = { ms: waitsMs + h.ms(250), waitsMs, from: 'keepMs + 250 ms' }
      if (!('fence' in again)) await takeWhenOver(h, h.adapter(), lock, bound)
      assertNotEarly(startedAt, keepMs)
    },
  },
  {
    id: 'ONCE-10',
    title:
      'an acquire that takes long does not shorten minHoldMs, and a lost reply to the release does not end it',
    kind: 'optional',
    needs: ['min-hold'],
    async run(h) {
      const { locks, faults } = await h.client()
      const lock = h.name()
      const minHoldMs = h.ttlMs
      const lateMs = Math.ceil(minHoldMs / 2)
      faults.inject('attempt', { lateMs }, 1)
      const askedAt = performance.now()
      const lease = await locks.lock(lock).acquire({ minHoldMs })
      faults.inject('release', 'lose-reply', 1)
      await lease.release()
      // A release that is sent again after a pause may count from then.
      await takeWhenOver(h, h.adapter(), lock, { ms: minHoldMs + h.ms(1_250), waitsMs: minHoldMs })
      assertNotEarly(askedAt + lateMs, minHoldMs)
    },
  },
  {
    id: 'ONCE-11',
    title: 'a re-entered hold uses the longest minHoldMs of its leases, a resumed one what remained',
    kind: 'optional',
    needs: ['min-hold', 'handover'],
    async run(h) {
      const [first, second] = [await h.client(), await h.client()]
      const [entered, handed] = [h.name('re-entered'), h.name('handed over')]
      const minHoldMs = h.ttlMs
      const outer = await first.locks.lock(entered).acquire({ owner: 'the job' })
      const enteredAt = performance.now()
      const inner = await first.locks.lock(entered).acquire({ owner: 'the job', minHoldMs })
      await inner.release()
      await outer.release()
      await freesInTime(h, entered, enteredAt, minHoldMs)

      const askedAt = performance.now()
      const lease = await first.locks.lock(handed).acquire({ minHoldMs })
      await pass(minHoldMs / 2)
      const text = lease.serialize()
      const resumed = await second.locks.resume(text)
      const resumedAt = performance.now()
      await resumed.release()
      const waitsMs = minHoldMs / 2 + (resumedAt - performance.now())
      const bound = {
        ms: Math.max(0, waitsMs) + h.ms(250),
        waitsMs,
        from: 'what remains of minHoldMs + 250 ms',
      }
      await takeWhenOver(h, h.adapter(), handed, bound)
      assertNotEarly(askedAt, minHoldMs)
    },
  },
  {
    id: 'ONCE-12',
    title: 'of many calls of once in one period one runs, and the others name its holder',
    kind: 'optional',
    needs: ['min-hold'],
    async run(h) {
      const clients = await Promise.all(Array.from({ length: 4 }, () => h.client()))
      const lock = h.name()
      const minHoldMs = h.lastingMs
      const holders = new Set<string | undefined>()
      let runs = 0
      const call = async (n: number): Promise<boolean> => {
        const { locks } = clients[n % clients.length] ?? assert.fail('no client')
        const outcome = await locks.once(lock, { minHoldMs, label: 'the job' }, () => (runs += 1))
        if (outcome.ran) assert.equal(outcome.value, 1)
        else if (runs > 0) holders.add(outcome.holder?.metadata?.label)
        return outcome.ran
      }
      const atOnce = await Promise.all(Array.from({ length: 12 }, (_, n) => call(n)))
      const later = [await call(0), await call(1)]
      assert.equal([...atOnce, ...later].filter((ran) => ran).length, 1)
      assert.equal(runs, 1)
      assert.ok(holders.has('the job'), 'the holder is not named')
    },
  },
]
