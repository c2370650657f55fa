import assert from 'node:assert/strict'
import { setTimeout as pass } from 'node:timers/promises'
import { safeTtlMs } from '../../adapter/time.ts'
import type { Child } from '../child-process.ts'
import type { Harness } from '../harness.ts'
import type { Rule } from '../rule.ts'
import { assertInTime } from './observe.ts'
import { assertRising, startWaiting, takeOver, takeOverMs, takeWhenOver } from './steps.ts'

function assertNotBefore(sentAt: number, ttlMs: number, at: number): void {
  const tookMs = at - sentAt
  assert.ok(tookMs >= safeTtlMs(ttlMs), `granted again after ${tookMs} ms, before ${ttlMs} ms were over`)
}

/** Kills `child` at some moment between the call of an acquire and shortly after its grant. */
async function killWhileAcquiring(h: Harness, child: Child, lock: string): Promise<void> {
  // It is already connected, so its request reaches the store within the next few milliseconds.
  await child.call('tryAcquire', { lock: h.name('warm-up'), options: { ttlMs: h.lastingMs } })
  const doomed = Promise.allSettled([child.call('acquire', { lock })])
  await pass(Math.random() * h.ms(8))
  await child.kill()
  await doomed
}

export const crash: readonly Rule[] = [
  {
    id: 'CRASH-1',
    title:
      'the lock of a killed holder goes to a waiter within the ttl, one poll and 250 ms, with a higher fence',
    kind: 'required',
    needs: ['processes'],
    async run(h) {
      const lock = h.name()
      const holder = await h.child({ ttlMs: h.ttlMs })
      const { locks } = await h.client()
      const { fence, lease: held } = await holder.call('acquire', { lock })
      const isHeld = async (): Promise<boolean> =>
        (await holder.call('state', { lease: held })).state !== 'lost'
      const { granted } = await startWaiting(locks, lock, takeOverMs(h) * 2, isHeld)
      const killedAt = performance.now()
      await holder.kill()
      const lease = await granted
      await assertInTime('granted to the next', takeOver(h), performance.now() - killedAt)
      assertRising(h, [fence, lease.fence])
    },
  },
  {
    id: 'CRASH-2',
    title: 'a killed waiter delays those behind it by no more than the lease',
    kind: 'required',
    needs: ['processes'],
    async run(h) {
      const lock = h.name()
      const [holder, behind, waiter] = [await h.client(), await h.client(), await h.child({ ttlMs: h.ttlMs })]
      const lease = await holder.locks.lock(lock).acquire()
      const waitMs = takeOverMs(h) * 4
      const doomed = Promise.allSettled([waiter.call('acquire', { lock, options: { waitMs } })])
      await h.eventually('the process waits', h.ms(5_000), () => waiter.call('contended', { lock }))
      const { granted } = await startWaiting(behind.locks, lock, waitMs)
      await waiter.kill()
      await doomed
      const releasedAt = performance.now()
      await lease.release()
      const next = await granted
      const tookMs = performance.now() - releasedAt
      await assertInTime('granted after the release, behind a dead waiter', takeOver(h), tookMs)
      assertRising(h, [lease.fence, next.fence])
    },
  },
  {
    id: 'CRASH-3',
    title: 'a process killed during an acquire blocks the name no longer than the ttl, one poll and 250 ms',
    kind: 'stochastic',
    needs: ['processes'],
    async run(h) {
      const children = await Promise.all(Array.from({ length: 6 }, () => h.child({ ttlMs: h.ttlMs })))
      await Promise.all(
        children.map(async (child) => {
          const lock = h.name()
          const { locks } = await h.client()
          await killWhileAcquiring(h, child, lock)
          const killedAt = performance.now()
          const lease = await locks.lock(lock).acquire({ waitMs: takeOverMs(h) * 2 })
          await assertInTime('granted to the next', takeOver(h), performance.now() - killedAt)
          await lease.release()
        }),
      )
    },
  },
  {
    id: 'CRASH-4',
    title: 'a holder that falls silent is expired by the store, not before its ttl and soon after',
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const lock = h.name()
      const silent = h.adapter()
      const sentAt = performance.now()
      const { fence } = await silent.take(silent.request(lock, { ttlMs: h.ttlMs }))
      const next = await takeWhenOver(h, h.adapter(), lock, {
        ms: h.ttlMs + h.ms(250),
        waitsMs: h.ttlMs,
        from: 'ttlMs + 250 ms',
        passive: true,
      })
      assertNotBefore(sentAt, h.ttlMs, performance.now())
      assertRising(h, [fence, next.fence])
    },
  },
  {
    id: 'CRASH-5',
    title: 'after an abnormal end the name stays blocked for lockDelayMs, after a release it does not',
    kind: 'optional',
    needs: ['lock-delay', 'lease'],
    async run(h) {
      const [holder, next] = [await h.client(), await h.client()]
      const [released, lost] = [h.name('released'), h.name('lost')]
      const lockDelayMs = h.ttlMs
      const polite = await holder.locks.lock(released).acquire({ lockDelayMs })
      await polite.release()
      assert.ok(await next.locks.lock(released).tryAcquire(), 'blocked after a release')

      const sentAt = performance.now()
      const lease = await holder.locks.lock(lost).acquire({ ttlMs: h.ttlMs, lockDelayMs, renew: false })
      const grantedBy = performance.now()
      const { granted } = await startWaiting(
        next.locks,
        lost,
        takeOverMs(h) * 4,
        () => lease.state !== 'lost',
      )
      const { fence } = await granted
      const tookMs = performance.now() - grantedBy
      assertNotBefore(sentAt, h.ttlMs + lockDelayMs, performance.now())
      await assertInTime('granted after lockDelayMs', takeOver(h, lockDelayMs), tookMs)
      assert.equal(lease.state, 'lost')
      assertRising(h, [lease.fence, fence])
    },
  },
  {
    id: 'CRASH-6',
    title: 'without lock-delay, asking for one is LOCK_UNSUPPORTED before the store is touched',
    kind: 'optional',
    needs: ['no lock-delay'],
    async run(h) {
      const { locks, faults } = await h.client()
      const lock = locks.lock(h.name())
      const lockDelayMs = h.ttlMs
      await h.rejects(lock.acquire({ lockDelayMs }), 'LOCK_UNSUPPORTED')
      await h.rejects(lock.tryAcquire({ lockDelayMs }), 'LOCK_UNSUPPORTED')
      await h.rejects(
        lock.with({ lockDelayMs }, () => assert.fail('the callback ran')),
        'LOCK_UNSUPPORTED',
      )
      assert.throws(() => locks.lock(h.name(), { lockDelayMs }), { code: 'LOCK_UNSUPPORTED' })
      assert.ok(
        Object.values(faults.calls).every((count) => count === 0),
        'the adapter was called',
      )
    },
  },
  {
    id: 'CRASH-7',
    title: 'a restarted process does not inherit the hold of its killed predecessor of the same owner',
    kind: 'required',
    needs: ['processes'],
    async run(h) {
      const lock = h.name()
      // Long enough to be still running when the second process has started.
      const options = { owner: 'the only job of its kind', ttlMs: h.ttlMs * 2, waitMs: takeOverMs(h) * 4 }
      const first = await h.child({ ttlMs: options.ttlMs })
      const sentAt = performance.now()
      const { fence } = await first.call('acquire', { lock, options })
      await first.kill()
      const second = await h.child()
      const next = await second.call('acquire', { lock, options })
      if (h.capabilities.kind === 'lease') assertNotBefore(sentAt, options.ttlMs, performance.now())
      assertRising(h, [fence, next.fence])
    },
  },
]
