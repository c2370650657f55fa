import { assertInTime, block } from '@locks/core/conformance'
import { setTimeout as pass } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { at, bare, connect, holdersOf, queued, startProcess, uniqueName, until } from './support/bed.ts'

const service = await startService('redis')
afterAll(() => service.close())
const server = service.server('redis')

const CLAIM_MS = 3_000

test('a killed process with 50 waiters delays those behind it by nothing', async () => {
  // Long, so that a claim left to the dead would show.
  const options = { ...at(server), claimTtlMs: 60_000 }
  const [holder, behind, doomed] = [connect(options), connect(options), await startProcess(options)]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire({ ttlMs: 60_000 })
  const lost = Promise.allSettled(
    Array.from({ length: 50 }, () => doomed.call('acquire', { lock, options: { waitMs: 60_000 } })),
  )
  await queued(holder, lock)
  const turn = behind.lock(lock).acquire({ waitMs: 30_000 })
  await queued(holder, lock, 2)
  await doomed.kill()
  await lost
  // The server has noticed by then; the queue still has both.
  await until(
    async () =>
      String(await redisCommand(server, 'CLIENT', 'LIST', 'TYPE', 'pubsub')).split('\n').length === 2,
  )
  const start = performance.now()
  await lease.release()
  await turn
  const tookMs = performance.now() - start
  console.log(`behind 50 killed waiters: ${tookMs.toFixed(1)} ms`)
  // One release, one message; a claim, a ttl or a look would be half a minute and more.
  await assertInTime('granted to the next', 10_000, tookMs)
})

test('a paused process delays the next waiters by one claim at most, and does not use its grant later', async () => {
  const options = { ...at(server), claimTtlMs: CLAIM_MS }
  const [holder, behind, paused] = [connect(options), connect(options), await startProcess(options)]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire({ ttlMs: 60_000 })
  let granted: bigint | undefined
  void paused.call('acquire', { lock, options: { waitMs: 60_000 } }).then(({ fence }) => (granted = fence))
  await queued(holder, lock)
  const turn = behind.lock(lock).acquire({ waitMs: 30_000, ttlMs: 60_000 })
  await queued(holder, lock, 2)
  paused.pause()
  const start = performance.now()
  await lease.release()
  const next = await turn
  const tookMs = performance.now() - start
  console.log(`behind a paused waiter with a claim of ${CLAIM_MS} ms: ${tookMs.toFixed(0)} ms`)
  expect(tookMs).toBeGreaterThan(CLAIM_MS * 0.9)
  await assertInTime('granted to the next', CLAIM_MS * 2, tookMs)
  paused.resume()
  // It runs again, reads the grant out of its socket, and goes back to wait.
  await queued(holder, lock)
  expect(granted).toBeUndefined()
  expect(await holdersOf(server, lock)).toHaveLength(1)
  expect((await holder.inspect(lock)).holder?.fence).toBe(next.fence)
  await next.release()
  const fence = await until(() => granted)
  expect(fence).toBeGreaterThan(next.fence)
})

test('a pushed grant is dated by when it was made, not by when it was read', async () => {
  // So long that no stall makes it too late to read the grant.
  const [holder, waiter] = [bare(at(server)), bare({ ...at(server), claimTtlMs: 20_000 })]
  const lock = uniqueName()
  const held = await holder.take(holder.request(lock))
  const request = waiter.request(lock, { willWait: true })
  await waiter.adapter.attempt(request)
  // Until it listens.
  await waiter.adapter.wait?.(request, 20_000, new AbortController().signal)
  const asked = performance.now()
  await waiter.adapter.attempt(request)
  const roundTripMs = performance.now() - asked
  const releasing = performance.now()
  await holder.adapter.release(held)
  const released = performance.now()
  // As a long pause would, with the grant in the socket.
  block(300)
  const pushed = await waiter.adapter.wait?.(request, 5_000, new AbortController().signal)
  expect(pushed?.ttlMs).toBe(20_000)
  expect(pushed?.grantedAt).toBeLessThanOrEqual(released)
  expect(pushed?.grantedAt).toBeGreaterThanOrEqual(releasing - roundTripMs - 1)
})

test('processes are served in the order they began to wait, whatever their number of tasks', async () => {
  const holder = connect(at(server))
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire({ ttlMs: 60_000 })
  const children = await Promise.all(Array.from({ length: 4 }, () => startProcess(at(server))))
  const order: number[] = []
  const done = []
  for (const [n, child] of children.entries()) {
    const mine = child.call('acquire', { lock, options: { waitMs: 30_000 } }).then(async (won) => {
      order.push(n)
      await child.call('release', won)
    })
    done.push(mine)
    await queued(holder, lock, n + 1)
  }
  await lease.release()
  await Promise.all(done)
  expect(order).toEqual([0, 1, 2, 3])
})

test('a fixed lease got by hand-off lasts for its own ttl, not for the claim', async () => {
  const options = { ...at(server), claimTtlMs: CLAIM_MS }
  const [holder, other] = [connect(options), connect(options)]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire()
  const turn = other.lock(lock).acquire({ renew: false, ttlMs: 60_000 })
  await queued(holder, lock)
  await lease.release()
  const fixed = await turn
  await pass(CLAIM_MS * 1.5)
  fixed.assertHeld()
  expect(await holder.lock(lock).tryAcquire()).toBeNull()
})

test('waiters of Redisson are not starved: every other release or so is left to them', async () => {
  const locks = [connect(at(server)), connect(at(server)), connect(at(server))]
  const lock = uniqueName()
  const channel = `redisson_lock__channel:{${lock}}`
  const { Redis } = await import('ioredis')
  const java = new Redis({ host: server.host, port: server.port })
  const subscriber = java.duplicate()
  let told = 0
  subscriber.on('message', () => (told += 1))
  await subscriber.subscribe(channel)
  let grants = 0
  const busy = locks.map(async (client) => {
    for (let n = 0; n < 20; n += 1) {
      await client.with(lock, { waitMs: 30_000 }, () => pass(1))
      grants += 1
    }
  })
  await Promise.all(busy)
  subscriber.disconnect()
  java.disconnect()
  expect(grants).toBe(60)
  expect(told).toBeGreaterThanOrEqual(10)
})
