import assert from 'node:assert/strict'
import type { Shift } from '../fault-proxy.ts'
import type { Rule } from '../rule.ts'
import { allDone, callAll, callMeanwhile, orUnavailable, pair } from './connection-calls.ts'
import { releaseAll, worksAgain } from './connection-calls.ts'
import { inTime } from './observe.ts'

/** Handshakes differ: these reach from before the first byte to after the login. */
const CUTS = [0, 5, 40, 200]

const SHIFTS: readonly Shift[] = ['drop', 'duplicate', 'insert']

/** Faults of connections besides breaking: refused, cut during the handshake, replies out of step. */
export const connections: readonly Rule[] = [
  {
    id: 'CONN-1',
    title: 'reconnects that are refused several times, with calls queued meanwhile, let in no second holder',
    kind: 'required',
    needs: ['wire'],
    timeoutMs: 60_000,
    async run(h) {
      const both = await pair(h)
      const { proxy } = both.client
      for (const how of ['close', 'reset'] as const) {
        const before = proxy.stats.connections
        void proxy.refuseNext(3, how)
        proxy.reset()
        const leases = await callMeanwhile(h, both, 20)
        assert.ok(
          proxy.stats.connections > before,
          'the client did not connect again, so nothing was refused',
        )
        await worksAgain(h, both)
        await releaseAll(h, both, leases)
      }
    },
  },
  {
    id: 'CONN-2',
    title: 'handshakes that are cut in the middle, with calls queued meanwhile, let in no second holder',
    kind: 'required',
    needs: ['wire'],
    timeoutMs: 60_000,
    async run(h) {
      const both = await pair(h)
      const { proxy } = both.client
      for (const afterBytes of CUTS) {
        const before = proxy.stats.connections
        void proxy.cutNext(2, afterBytes)
        proxy.reset()
        const leases = await callMeanwhile(h, both, 6)
        assert.ok(proxy.stats.connections > before, 'the client did not connect again, so nothing was cut')
        await worksAgain(h, both)
        await releaseAll(h, both, leases)
      }
    },
  },
  {
    id: 'CONN-3',
    title:
      'a connection that breaks under calls and comes back after refusals and cuts lets in no second holder',
    kind: 'required',
    needs: ['wire'],
    async run(h) {
      const both = await pair(h)
      const { locks, proxy } = both.client
      for (const afterBytes of [5, 40]) {
        void proxy.refuseNext(1, 'close')
        void proxy.cutNext(2, afterBytes)
        void proxy.refuseNext(1, 'reset')
        // Sent and not answered. One of them may have been granted, so only a wait finds the lock free.
        const names = [h.name('free'), h.name('free')]
        const waits = names.map((name) => locks.lock(name).acquire({ waitMs: h.ms(10_000) }))
        const refused = locks.lock(both.held.name).tryAcquire()
        setImmediate(() => proxy.reset())
        const calls = Promise.allSettled([...waits, refused])
        await inTime('an end of every call', h.ms(20_000), calls)
        assert.ok(!(await orUnavailable(refused)), 'a held lock was granted')
        const leases = (await Promise.all(waits.map(orUnavailable))).filter((lease) => lease !== undefined)
        await worksAgain(h, both)
        await releaseAll(h, both, leases)
      }
    },
  },
  {
    id: 'CONN-4',
    title:
      'a dropped, doubled or inserted reply grants no held lock, refuses no free one and frees no other hold',
    kind: 'required',
    needs: ['wire'],
    timeoutMs: 60_000,
    async run(h) {
      const both = await pair(h)
      const { locks, proxy } = both.client
      for (const shift of SHIFTS) {
        // Makes the previous reply, which is inserted, a grant.
        const before = await orUnavailable(locks.lock(h.name('before')).tryAcquire())
        assert.notEqual(before, null, 'a free lock was reported as held')
        const first = proxy.shiftNextReply(shift)
        const leases = [...(before ? [before] : []), ...(await callAll(h, both))]
        await inTime('the fault', h.ms(5_000), first)
        await worksAgain(h, both)
        // The reply to a release, or to the next call for it.
        void proxy.shiftNextReply(shift)
        const [, called] = await allDone([releaseAll(h, both, leases), callAll(h, both)])
        leases.push(...called)
        await worksAgain(h, both)
        await releaseAll(
          h,
          both,
          leases.filter(({ state }) => state === 'held'),
        )
      }
    },
  },
]
