import assert from 'node:assert/strict'
import type { Lease } from '../../api/contract.ts'
import type { LocksOptions } from '../../api/options.ts'
import type { Harness, TestClient } from '../harness.ts'
import type { Rule } from '../rule.ts'
import { assertInTime, seenWaiting, eventOf } from './observe.ts'
import { assertRising } from './steps.ts'

/** A client that found a name held may not be in its queue yet: it may have to subscribe first. */
async function inLine(h: Harness, { locks }: TestClient, lock: string, count: number): Promise<void> {
  await h.eventually(`${count} wait at the store`, h.ms(20_000), async () => {
    const { waiters } = await locks.inspect(lock)
    return waiters === undefined || waiters >= count
  })
}

/** Clients that wait for `lock` in the order of the result: each one waits before the next one starts. */
export async function queueUp(
  h: Harness,
  lock: string,
  count: number,
  first: LocksOptions = {},
): Promise<(TestClient & { turn: Promise<Lease> })[]> {
  const waiters = []
  for (let n = 0; n < count; n += 1) {
    const client = await h.client(n === 0 ? first : {})
    const waits = eventOf(client, 'contended', lock)
    const turn = client.locks.lock(lock).acquire({ waitMs: h.ms(20_000) })
    await seenWaiting(turn, waits)
    if (h.capabilities.wait === 'handoff') await inLine(h, client, lock, n + 1)
    waiters.push({ ...client, turn })
  }
  return waiters
}

/** Several clients that wait for one name: which is woken, in which order, and at what cost. */
export const waitingInLine: readonly Rule[] = [
  {
    id: 'WAIT-7',
    title: 'a release wakes a waiter, long before the lease would have expired',
    kind: 'optional',
    needs: ['push'],
    async run(h) {
      const holder = await h.client()
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const [waiter] = await queueUp(h, lock, 1)
      const start = performance.now()
      await lease.release()
      const next = await waiter?.turn
      const tookMs = performance.now() - start
      assert.ok(next !== undefined)
      assertRising(h, [lease.fence, next.fence])
      await assertInTime('the waiter is woken', h.ms(2_000), tookMs)
    },
  },
  {
    id: 'WAIT-10',
    title: 'a hand-off costs no more store calls with many waiters than with one: no herd',
    kind: 'optional',
    needs: ['handoff'],
    async run(h) {
      const count = 8
      const holder = await h.client()
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const waiters = await queueUp(h, lock, count)
      const asked = (): number => waiters.reduce((sum, { faults }) => sum + faults.calls.attempt, 0)
      const before = asked()
      await lease.release()
      for (const { turn } of waiters) await (await turn).release()
      assert.ok(asked() - before <= 1, `${asked() - before} more attempts for ${count} hand-offs`)
    },
  },
  {
    id: 'WAIT-11',
    title: 'clients are served in the order they began to wait at the store',
    kind: 'optional',
    needs: ['fifo'],
    async run(h) {
      const holder = await h.client()
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const waiters = await queueUp(h, lock, 6)
      const order: number[] = []
      const served = waiters.map(async ({ turn }, n) => {
        const mine = await turn
        order.push(n)
        await mine.release()
      })
      await lease.release()
      await Promise.all(served)
      assert.deepEqual(order, [0, 1, 2, 3, 4, 5])
    },
  },
  {
    id: 'WAIT-15',
    title: 'a waiter that is granted the lock and falls silent delays the next by its own lease only',
    kind: 'optional',
    needs: ['fifo', 'handover'],
    async run(h) {
      const holder = await h.client()
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const [brief, patient] = await queueUp(h, lock, 2, { ttlMs: h.ttlMs })
      await lease.release()
      const served = await brief?.turn
      const start = performance.now()
      // No client continues it, so it ends without a message.
      served?.serialize()
      const next = await patient?.turn
      const waited = performance.now() - start
      assert.ok(served !== undefined && next !== undefined)
      assertRising(h, [lease.fence, served.fence, next.fence])
      const bound = { ms: h.ttlMs * 2 + h.ms(2_000), waitsMs: h.ttlMs, from: '2 ttlMs + 2 s' }
      await assertInTime('granted to the next', bound, waited)
    },
  },
]
