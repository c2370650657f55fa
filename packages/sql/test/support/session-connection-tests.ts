import { isLockError } from '@locks/core'
import type { Locks, LocksOptions } from '@locks/core'
import type { TestAdapter } from '@locks/core/conformance'
import { describe, expect, test } from 'vitest'
import { scaled } from '../../../../conformance/services/timing.ts'
import { contended } from '../../../../conformance/test-support/clients.ts'

/** Limits that an adapter has to keep. */
interface Bounds {
  readonly maxConnections: number
  readonly poolSize: number
}

export interface SessionBed {
  readonly open: (bounds: Bounds, options?: LocksOptions) => Locks
  readonly bare: (bounds: Bounds) => TestAdapter
  /** How many connections the server has now, except those of the test itself. */
  readonly count: () => Promise<number>
}

const bounds: Bounds = { maxConnections: 5, poolSize: 2 }
const { maxConnections, poolSize } = bounds
const strangersCount = 20

/** For a strategy with a connection for each lock and each waiter. */
export function sessionConnectionTests(strategy: string, { open, bare, count }: SessionBed): void {
  describe(strategy, () => {
    test(
      '200 waiters on 5 connections: nothing deadlocks, releases and renewals get through',
      async () => {
        const before = await count()
        const ttlMs = scaled(5_000)
        const locks = open(bounds, { ttlMs, storeTimeoutMs: scaled(60_000) })
        const names = ['a', 'b', 'c']
        const leases = await Promise.all(names.map((name) => locks.lock(name).acquire()))
        const heldAt = performance.now()
        let most = 0
        let done = 0
        const waiters = Array.from({ length: 200 }, async (_, n) => {
          await locks.with(names[n % 2] ?? 'a', { waitMs: scaled(60_000) }, async () => {
            if (n % 20 === 0) most = Math.max(most, await count())
          })
          done += 1
        })
        // Waiters of different clients need a connection each.
        const strangers = bare(bounds)
        const queued = Array.from({ length: strangersCount }, () =>
          strangers.request('c', { willWait: true }),
        )
        const answers = await Promise.allSettled(queued.map((one) => strangers.adapter.attempt(one)))
        const refused = answers.filter((answer) => answer.status === 'rejected')
        expect(refused).toHaveLength(strangersCount - maxConnections)
        for (const { reason } of refused) {
          expect(isLockError(reason, 'LOCK_UNAVAILABLE')).toBe(true)
          expect(String(reason)).toContain('maxConnections')
        }
        most = Math.max(most, await count())
        // Through more than one ttl: without renewal they would be lost by now.
        await new Promise((resolve) => setTimeout(resolve, heldAt + ttlMs + 500 - performance.now()))
        for (const lease of leases) await lease.extend()
        await Promise.all(queued.map((one) => strangers.adapter.withdraw(one)))
        await Promise.all(leases.map((lease) => lease.release()))
        await Promise.all(waiters)
        expect(done).toBe(200)
        expect(most).toBeGreaterThan(maxConnections)
        expect(most).toBeLessThanOrEqual(before + 2 * (maxConnections + poolSize))
      },
      scaled(90_000),
    )

    test('a try that finds no free connection is refused at once, and is not "busy"', async () => {
      const locks = open({ ...bounds, maxConnections: 1 })
      const lease = await locks.lock('only').acquire()
      const error = await locks
        .lock('other')
        .tryAcquire()
        .catch((reason: unknown) => reason)
      expect(isLockError(error, 'LOCK_UNAVAILABLE')).toBe(true)
      await lease.release()
    })

    test('an aborted wait frees its connection and its place at once', async () => {
      const [holder, other] = [open(bounds), open({ ...bounds, maxConnections: 1 })]
      const lease = await holder.lock('aborted').acquire()
      for (let n = 0; n < 10; n += 1) {
        const controller = new AbortController()
        const waits = contended(other, 'aborted')
        const turn = other.lock('aborted').acquire({ signal: controller.signal, waitMs: scaled(20_000) })
        await waits
        controller.abort(n)
        await expect(turn).rejects.toBe(n)
        const free = await other.lock('free').acquire({ waitMs: scaled(4_000) })
        await free.release()
      }
      await lease.release()
    })
  })
}
