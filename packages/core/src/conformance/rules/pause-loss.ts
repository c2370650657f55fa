import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { memoryGuard } from '../../api/guard.ts'
import type { Harness } from '../harness.ts'
import type { Rule } from '../rule.ts'
import { block } from '../time/heartbeat.ts'
import type { Stalled, StallOptions } from '../stall.ts'
import { assertHolder, assertInTime, lossOf, wired } from './observe.ts'
import { assertRising, assertSoleHolder } from './steps.ts'

/** Breaks the current hold of `lock`, like an operator. */
async function breakAny(h: Harness, lock: string): Promise<void> {
  const { adapter } = h.adapter()
  const { holder } = await adapter.inspect(lock)
  assert.ok(holder, `${lock} should be held`)
  assert.equal(await adapter.break?.(lock, holder), 'broken')
}

/** What a holder reports after its hold was ended at the store, and granted to another, while its loop was blocked. */
async function lostInStall(h: Harness, by: StallOptions['by']): Promise<Stalled> {
  const [lock, directory, { locks }] = [h.name(), await h.directory(), await h.client()]
  const [blocked, goOn] = [join(directory, 'blocked'), join(directory, 'go-on')]
  const holder = await h.child()
  const stalled = holder.call('stall', { lock, by, blocked, goOn, forMs: h.ms(1_500) })
  const isBlocked = (): Promise<boolean> =>
    access(blocked).then(
      () => true,
      () => false,
    )
  await h.eventually('the holder blocks its event loop', h.ms(10_000), isBlocked)
  await breakAny(h, lock)
  const successor = await locks.lock(lock).acquire({ waitMs: h.ms(10_000) })
  writeFileSync(goOn, '')
  const said = await stalled
  await holder.call('close', {})
  await assertSoleHolder(h, successor)
  return said
}

/** Losses that the holder could have read from its connection if its event loop had not been blocked. */
export const pausedLosses: readonly Rule[] = [
  {
    id: 'PAUSE-6',
    title: 'the store ends a hold while the event loop of its holder is blocked: release and with reject',
    kind: 'optional',
    needs: ['processes', 'break'],
    async run(h) {
      for (const by of ['release', 'with'] as const) {
        const { state, remainingMs, assertHeld, end } = await lostInStall(h, by)
        assert.equal(end, 'LOCK_LOST', `${by}: ${end}`)
        // The end of a lease or a session is known here. A connection must be read.
        if (h.capabilities.kind !== 'connection') continue
        assert.notEqual(assertHeld, 'ok', 'assertHeld passed')
        assert.notEqual(state, 'held')
        assert.equal(remainingMs, 0)
      }
    },
  },
  {
    id: 'PAUSE-7',
    title: 'after a stall a hold that is a connection is in doubt until the event loop has read its sockets',
    kind: 'optional',
    needs: ['connection'],
    // It blocks the event loop that others would run on.
    alone: true,
    async run(h) {
      const { locks } = await h.client()
      const lease = await locks.lock(h.name()).acquire()
      lease.assertHeld()
      // A timer that is due during the stall runs before anything is read: timers are the next phase of the loop.
      await new Promise((resolve) => setImmediate(resolve))
      const inTimer = new Promise((resolve) => setTimeout(() => resolve(lease.state), h.ms(100)))
      block(h.ms(1_000))
      assert.throws(() => lease.assertHeld(), { code: 'LOCK_UNAVAILABLE' })
      assert.deepEqual([lease.state, lease.remainingMs], ['jeopardy', 0])
      // Awaiting settled promises does not run the event loop.
      for (let n = 0; n < 100; n += 1) await Promise.resolve()
      assert.throws(() => lease.assertHeld(), { code: 'LOCK_UNAVAILABLE' })
      assert.equal(await inTimer, 'jeopardy')
      await h.eventually('the doubt ends by itself', h.ms(1_000), () => lease.state === 'held')
      lease.assertHeld()
      block(h.ms(1_000))
      // The store's answer ends the doubt.
      await lease.extend()
      lease.assertHeld()
      await assertHolder(h, lease)
      block(h.ms(1_000))
      await lease.release()
      await h.free(lease.name)
    },
  },
  {
    id: 'PAUSE-8',
    title: 'a holder cut off while its connection ends relies on it for at most its ttl; its fence is stale',
    kind: 'optional',
    needs: ['wire', 'break', 'connection'],
    async run(h) {
      const [cutOff, other] = [await wired(h, { ttlMs: h.ttlMs }), await h.client()]
      const lock = h.name()
      const lease = await cutOff.locks.lock(lock).acquire()
      const lost = lossOf(lease)
      cutOff.proxy.blackhole()
      await breakAny(h, lock)
      const successor = await other.locks.lock(lock).acquire({ waitMs: h.ms(10_000) })
      const grantedAt = performance.now()
      const guard = memoryGuard()
      await guard.register(successor.fence)
      await assert.rejects(guard.register(lease.fence), { code: 'LOCK_LOST' })
      const { at } = await lost
      const overlapMs = at - grantedAt
      await assertInTime(
        'no longer relied on, after a successor was granted',
        { ms: h.ttlMs, from: 'ttlMs' },
        overlapMs,
      )
      assertRising(h, [lease.fence, successor.fence])
      await assertSoleHolder(h, successor)
      await h.rejects(lease.release(), 'LOCK_LOST')
    },
  },
]
