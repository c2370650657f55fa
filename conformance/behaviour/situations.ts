import assert from 'node:assert/strict'
import { setTimeout as pass } from 'node:timers/promises'
import type { Lease, Locks } from '@locks/core'
import type { Child, Harness } from '@locks/core/conformance'

/** What one round showed. Times are in ms; `kept` is whether the holder still held the lock in the end. */
export interface Observation {
  /** Until another client had the lock: from the fault, or from the release if a waiter failed. */
  readonly nextMs?: number
  /** Until the holder itself knew that it had lost the lock. */
  readonly knownMs?: number
  /** Until the one that was cut off had the lock, from when it could reach the store again and the lock was free. */
  readonly backMs?: number
  readonly kept?: boolean
}

export interface Situation {
  readonly id: string
  readonly needs: 'processes' | 'wire'
  readonly run: (h: Harness, lock: string) => Promise<Observation>
}

const WAIT_MS = 120_000

/** Leases whose end can be waited for. */
function short(h: Harness): { readonly ttlMs: number } {
  return { ttlMs: h.ttlMs }
}

/** Starts an acquire of a held lock and resolves once it waits. */
async function waiting(
  locks: Locks,
  lock: string,
): Promise<{ granted: Promise<Lease>; at: Promise<number> }> {
  const waits = new Promise<void>((resolve) => {
    const off = locks.on('contended', (event) => {
      if (event.lock !== lock) return
      off()
      resolve()
    })
  })
  const granted = locks.lock(lock).acquire({ waitMs: WAIT_MS })
  const at = granted.then(() => performance.now())
  await Promise.race([waits, granted.then(() => assert.fail('granted although held'))])
  return { granted, at }
}

async function waitingChild(h: Harness, child: Child, lock: string): Promise<{ granted: Promise<unknown> }> {
  const granted = child.call('acquire', { lock, options: { waitMs: WAIT_MS } })
  granted.catch(() => undefined)
  await h.eventually('the process waits', 60_000, () => child.call('contended', { lock }))
  return { granted }
}

function assertHigher(h: Harness, next: bigint, than: bigint): void {
  if (h.capabilities.fencing !== 'none') assert.ok(next > than, `fence ${next} after ${than}`)
}

/** A waiter says that it waits before it stands in the store's queue. */
async function queued(): Promise<void> {
  await pass(300)
}

export const situations: readonly Situation[] = [
  {
    id: 'holder-crashes',
    needs: 'processes',
    async run(h, lock) {
      const holder = await h.child(short(h))
      const { locks } = await h.client(short(h))
      const { fence } = await holder.call('acquire', { lock })
      const next = await waiting(locks, lock)
      const killedAt = performance.now()
      await holder.kill()
      assertHigher(h, (await next.granted).fence, fence)
      return { nextMs: (await next.at) - killedAt }
    },
  },
  {
    id: 'holder-pauses',
    needs: 'processes',
    async run(h, lock) {
      const holder = await h.child(short(h))
      const { locks } = await h.client(short(h))
      const held = await holder.call('acquire', { lock })
      const next = await waiting(locks, lock)
      const pausedAt = performance.now()
      holder.pause()
      assertHigher(h, (await next.granted).fence, held.fence)
      const nextMs = (await next.at) - pausedAt
      holder.resume()
      // The question goes ahead of every timer that is overdue over there.
      const { state } = await holder.call('state', held)
      return { nextMs, kept: state === 'held' }
    },
  },
  {
    id: 'holder-returns-within',
    needs: 'wire',
    async run(h, lock) {
      const [{ locks: own, proxy }, { locks }] = [await h.wireClient(short(h)), await h.client(short(h))]
      const lease = await own.lock(lock).acquire()
      const next = await waiting(locks, lock)
      const cutAt = performance.now()
      proxy.refuse()
      await pass(h.ttlMs / 4)
      proxy.pass()
      // Long enough for a lease that is not renewed again to end, and for the next one to have it.
      await Promise.race([next.at, pass(h.ttlMs * 2)])
      if (lease.state === 'held' || lease.state === 'jeopardy') return { kept: true }
      assertHigher(h, (await next.granted).fence, lease.fence)
      return { kept: false, nextMs: (await next.at) - cutAt }
    },
  },
  {
    id: 'holder-returns-after',
    needs: 'wire',
    async run(h, lock) {
      const [{ locks: own, proxy }, { locks }] = [await h.wireClient(short(h)), await h.client(short(h))]
      const lease = await own.lock(lock).acquire()
      const known = new Promise<number>((resolve) => {
        lease.signal.addEventListener('abort', () => resolve(performance.now()))
      })
      const next = await waiting(locks, lock)
      const cutAt = performance.now()
      proxy.refuse()
      const [knownAt, nextAt] = await Promise.all([known, next.at])
      assertHigher(h, (await next.granted).fence, lease.fence)
      proxy.pass()
      await h.rejects(lease.release(), 'LOCK_LOST')
      return { kept: false, knownMs: knownAt - cutAt, nextMs: nextAt - cutAt }
    },
  },
  {
    id: 'holder-restarts',
    needs: 'processes',
    async run(h, lock) {
      const options = { owner: 'the only job of its kind', waitMs: WAIT_MS }
      // Started before the first one is killed: the start of a process is none of the store's doing.
      const [first, second] = [await h.child(short(h)), await h.child(short(h))]
      const { fence } = await first.call('acquire', { lock, options })
      const killedAt = performance.now()
      await first.kill()
      const next = await second.call('acquire', { lock, options })
      assertHigher(h, next.fence, fence)
      return { nextMs: performance.now() - killedAt }
    },
  },
  {
    id: 'waiter-disconnects',
    needs: 'wire',
    async run(h, lock) {
      const patient = { ...short(h), storeTimeoutMs: WAIT_MS }
      const [holder, cut, behind] = [
        await h.client(short(h)),
        await h.wireClient(patient),
        await h.client(short(h)),
      ]
      const lease = await holder.locks.lock(lock).acquire()
      const first = await waiting(cut.locks, lock)
      await queued()
      const second = await waiting(behind.locks, lock)
      await queued()
      cut.proxy.refuse()
      await pass(100)
      const releasedAt = performance.now()
      await lease.release()
      const next = await second.granted
      const nextMs = (await second.at) - releasedAt
      cut.proxy.pass()
      const freeAt = performance.now()
      await next.release()
      assertHigher(h, (await first.granted).fence, next.fence)
      return { nextMs, backMs: (await first.at) - freeAt }
    },
  },
  {
    id: 'waiter-dies',
    needs: 'processes',
    async run(h, lock) {
      const [holder, behind, waiter] = [
        await h.client(short(h)),
        await h.client(short(h)),
        await h.child(short(h)),
      ]
      const lease = await holder.locks.lock(lock).acquire()
      const doomed = Promise.allSettled([(await waitingChild(h, waiter, lock)).granted])
      await queued()
      const second = await waiting(behind.locks, lock)
      await queued()
      await waiter.kill()
      await doomed
      const releasedAt = performance.now()
      await lease.release()
      assertHigher(h, (await second.granted).fence, lease.fence)
      return { nextMs: (await second.at) - releasedAt }
    },
  },
]
