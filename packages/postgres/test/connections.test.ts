import { isLockError } from '@locks/core'
import { expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { bare, connect, contended, open, startServer } from './setup.ts'

const server = await startServer({ max_connections: 100 })
const maxConnections = 5
const poolSize = 2
const row = { url: `${server.url}?application_name=counted`, strategy: 'row', maxConnections, poolSize }

test(
  'row: 200 waiters on 5 connections: nothing deadlocks, releases and renewals get through',
  async () => {
    const control = await connect(server)
    const count = async (): Promise<number> => {
      const text = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'counted'"
      return (await control.query<{ n: number }>(text)).rows[0]?.n ?? NaN
    }
    const locks = open(row, { ttlMs: scaled(1_500), storeTimeoutMs: scaled(60_000) })
    const names = ['a', 'b', 'c']
    const leases = await Promise.all(names.map((name) => locks.lock(name).acquire()))
    let most = 0
    let done = 0
    const waiters = Array.from({ length: 200 }, async (_, n) => {
      const name = names[n % 2] ?? 'a'
      await locks.with(name, { waitMs: scaled(60_000) }, async () => {
        if (n % 20 === 0) most = Math.max(most, await count())
      })
      done += 1
    })
    // Waiters that are no tasks of one client but strangers to each other need a connection each.
    const strangers = bare(row)
    const queued = Array.from({ length: 20 }, () => strangers.request('c', { willWait: true }))
    const answers = await Promise.allSettled(queued.map((request) => strangers.adapter.attempt(request)))
    const refused = answers.filter((answer) => answer.status === 'rejected')
    expect(refused).toHaveLength(20 - maxConnections)
    for (const { reason } of refused) {
      expect(isLockError(reason, 'LOCK_UNAVAILABLE')).toBe(true)
      expect(String(reason)).toContain('maxConnections')
    }
    // Through more than one ttl: without renewal they would be lost by now.
    await new Promise((resolve) => setTimeout(resolve, scaled(2_000)))
    for (const lease of leases) {
      lease.assertHeld()
      await lease.extend()
    }
    await Promise.all(queued.map((request) => strangers.adapter.withdraw(request)))
    await Promise.all(leases.map((lease) => lease.release()))
    await Promise.all(waiters)
    expect(done).toBe(200)
    expect(most).toBeLessThanOrEqual(2 * (maxConnections + poolSize))
  },
  scaled(90_000),
)

test('row: a try that finds no free connection says so at once, and is not told "busy"', async () => {
  const locks = open({ ...row, maxConnections: 1 })
  const lease = await locks.lock('only').acquire()
  const error = await locks
    .lock('other')
    .tryAcquire()
    .catch((reason: unknown) => reason)
  expect(isLockError(error, 'LOCK_UNAVAILABLE')).toBe(true)
  await lease.release()
})

test('row: a wait that is aborted frees its connection and its place at once', async () => {
  const [holder, other] = [open(row), open({ ...row, maxConnections: 1 })]
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
