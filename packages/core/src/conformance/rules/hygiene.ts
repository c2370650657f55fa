import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { hostname } from 'node:os'
import type { Child } from '../child-process.ts'
import type { Rule } from '../rule.ts'
import { closing } from './hygiene-close.ts'
import { storm } from './hygiene-storm.ts'
import { assertStillHeld, seenWaiting, eventOf, inTime, pass, rejectsWith, soonFree } from './observe.ts'

/** The fewest timers that kept the child alive in many samples over `ms`. */
async function steadyTimers(child: Child, ms: number): Promise<number> {
  const until = performance.now() + ms
  let fewest = Infinity
  while (performance.now() < until) {
    fewest = Math.min(fewest, await child.call('timers', {}))
    await pass(ms / 20)
  }
  return fewest
}

function timersHere(): number {
  return process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length
}

export const hygiene: readonly Rule[] = [
  {
    id: 'HYG-1',
    title: 'release, refusal, time-out and abort leave nothing in the store',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const lease = await holder.locks.lock(lock).acquire()
      const wanted = other.locks.lock(lock)
      assert.equal(await wanted.tryAcquire(), null)
      await h.rejects(wanted.acquire({ waitMs: h.ms(1_000) }), 'LOCK_TIMEOUT')
      const controller = new AbortController()
      const waits = eventOf(other, 'contended', lock)
      const aborted = wanted.acquire({ signal: controller.signal, waitMs: h.ms(20_000) })
      await seenWaiting(aborted, waits)
      controller.abort('enough')
      await rejectsWith(aborted, 'enough')
      await h.eventually(
        'no client waits',
        h.ms(3_000),
        async () => !(await holder.locks.inspect(lock)).waiters,
      )
      await lease.release()
      await soonFree(h, lock)
      const { held, waiters = 0 } = await other.locks.inspect(lock)
      assert.deepEqual({ held, waiters }, { held: false, waiters: 0 })
    },
  },
  {
    id: 'HYG-3',
    title: 'a process ends by itself once it has closed its client',
    kind: 'required',
    async run(h) {
      const [{ locks }, child] = [await h.client(), await h.child()]
      const [given, held, taken] = [h.name(), h.name(), h.name()]
      await locks.lock(taken).acquire()
      const { lease } = await child.call('acquire', { lock: given })
      await child.call('release', { lease })
      await child.call('acquire', { lock: held })
      // One waits in the process; the other at the store, if all processes share it.
      const waits = [held, taken].map((lock) => child.call('acquire', { lock, options: { waitMs: 60_000 } }))
      const outcomes = Promise.allSettled(waits)
      await child.call('tryAcquire', { lock: held })
      await child.call('close', {})
      await outcomes
      await child.call('disconnect', {})
      assert.equal(await inTime('the process ends', h.ms(5_000), child.exited), 0)
    },
  },
  {
    // A connection may keep a process alive; the promise is that no timer of a lease does.
    id: 'HYG-4',
    title: 'no timer of a renewed lease keeps its process alive',
    kind: 'required',
    async run(h) {
      const child = await h.child({ ttlMs: h.ttlMs })
      const lock = h.name()
      const { lease: first } = await child.call('acquire', { lock, options: { ttlMs: h.lastingMs } })
      await child.call('release', { lease: first })
      const idle = await steadyTimers(child, h.ttlMs / 2)
      const { lease } = await child.call('acquire', { lock })
      const holding = await steadyTimers(child, h.ttlMs * 1.5)
      // After its ttl: it has been renewed.
      await child.call('assertHeld', { lease })
      assert.ok(holding <= idle, `${holding} timers keep a holder alive, ${idle} without a lease`)
    },
  },
  {
    id: 'HYG-8',
    title: 'inspect shows who holds a lock and since when, and changes nothing',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const before = await other.locks.inspect(lock)
      assert.equal(before.held, false)
      assert.equal(before.holder, undefined)
      await h.free(lock)
      const calledAt = Date.now()
      const lease = await holder.locks.lock(lock).acquire({ label: 'who am I' })
      const { held, holder: shown, remainingMs } = await other.locks.inspect(lock)
      assert.equal(held, true)
      assert.equal(shown?.owner, lease.owner)
      assert.deepEqual(shown?.metadata, { host: hostname(), pid: process.pid, label: 'who am I' })
      if (h.capabilities.fencing !== 'none') assert.equal(shown?.fence, lease.fence)
      // The store's clock may differ from ours.
      if (shown?.since !== undefined) assert.ok(Math.abs(shown.since - calledAt) < h.ms(60_000))
      for (let n = 0; n < 20; n += 1) await other.locks.inspect(lock)
      const after = await other.locks.inspect(lock)
      assert.deepEqual({ ...after.holder, since: 0 }, { ...shown, since: 0 })
      if (remainingMs !== undefined && h.capabilities.kind === 'lease')
        assert.ok((after.remainingMs ?? 0) <= remainingMs && remainingMs <= h.lastingMs, 'prolonged')
      await assertStillHeld(h, lease)
      await lease.release()
      await h.free(lock)
    },
  },
  {
    id: 'HYG-9',
    title: 'a thousand locks acquired and released, some of them contended, leave no timer and no waiter',
    kind: 'required',
    timeoutMs: 60_000,
    alone: true,
    async run(h) {
      // Of long leases: their timers would not end during the rule.
      const [holder, other] = [await h.client(), await h.client()]
      const contendedNames: string[] = []
      const cycle = async (contended: boolean): Promise<void> => {
        const lock = h.name()
        const lease = await holder.locks.lock(lock).acquire()
        if (!contended) return lease.release()
        contendedNames.push(lock)
        const waits = eventOf(other, 'contended', lock)
        const turn = other.locks.lock(lock).acquire({ waitMs: h.ms(20_000) })
        await seenWaiting(turn, waits)
        await lease.release()
        await (await turn).release()
      }
      await cycle(true)
      const before = timersHere()
      const workers = Array.from({ length: 10 }, async () => {
        for (let n = 0; n < 100; n += 1) await cycle(n % 10 === 0)
      })
      await Promise.all(workers)
      await h.eventually(`${before} timers again`, h.ms(5_000), () => timersHere() <= before + 10)
      for (const lock of contendedNames) {
        const { held, waiters = 0 } = await holder.locks.inspect(lock)
        assert.deepEqual({ held, waiters }, { held: false, waiters: 0 })
      }
    },
  },
  {
    id: 'HYG-10',
    title: 'a signal shared by many acquires is left without listeners, however they ended',
    kind: 'required',
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const { signal } = new AbortController()
      const lease = await holder.locks.lock(lock).acquire({ signal })
      const tries = Array.from({ length: 8 }, () => other.locks.lock(lock).tryAcquire({ signal }))
      assert.ok((await Promise.all(tries)).every((refused) => refused === null))
      await h.rejects(other.locks.lock(lock).acquire({ signal, waitMs: h.ms(1_000) }), 'LOCK_TIMEOUT')
      other.faults.inject('attempt', 'fail', 1)
      const once = { signal, retry: { attempts: 1 } }
      await h.rejects(other.locks.lock(lock).tryAcquire(once), 'LOCK_UNAVAILABLE')
      const turns = Array.from({ length: 5 }, () =>
        other.locks.lock(lock).with({ signal, waitMs: h.ms(20_000) }, () => undefined),
      )
      await lease.release()
      await Promise.all(turns)
      await soonFree(h, lock)
      assert.equal(getEventListeners(signal, 'abort').length, 0)
    },
  },
  ...closing,
  storm,
]
