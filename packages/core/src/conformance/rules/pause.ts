import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pass } from 'node:timers/promises'
import { isLockError } from '../../adapter/lock-error.ts'
import type { Rule } from '../rule.ts'
import { block } from '../time/heartbeat.ts'
import { pausedLosses } from './pause-loss.ts'
import {
  assertHistory,
  assertSoleHolder,
  assertRising,
  historyFile,
  recordedHold,
  recorderIn,
  takeOverMs,
} from './steps.ts'

export const pause: readonly Rule[] = [
  {
    id: 'PAUSE-1',
    title: 'a process paused beyond its lease starts no protected step after its deadline',
    kind: 'required',
    needs: ['processes'],
    async run(h) {
      const lock = h.name()
      const directory = await h.directory()
      const { locks } = await h.client()
      const paused = await h.child({ ttlMs: h.ttlMs })
      const { lease } = await paused.call('acquire', { lock })
      await paused.call('work', { lease, process: 'paused', file: historyFile(directory, 'paused') })
      paused.pause()
      const recorder = recorderIn(h, directory, 'successor')
      const hold = { recorder, task: 'take over', waitMs: takeOverMs(h) * 4 }
      await recordedHold(locks, lock, hold, async (successor) => {
        paused.resume()
        const { state } = await paused.call('state', { lease })
        assert.equal(state, 'lost')
        // After this the resumed process does nothing more at the store.
        await paused.call('close', {})
        await assertSoleHolder(h, successor)
      })
      const events = assertHistory(h, directory, { floors: { grants: 2, contendedWaits: 1, faults: 0 } })
      assert.ok(
        events.some(({ type }) => type === 'protected'),
        'the paused process never worked',
      )
    },
  },
  {
    id: 'PAUSE-2',
    title: 'a callback that blocked the event loop beyond its lease learns of the loss before any timer runs',
    kind: 'required',
    alone: true,
    async run(h) {
      const { locks } = await h.client({ ttlMs: h.ttlMs })
      let verdict: unknown = 'held'
      const outcome = locks.with(h.name(), (lease) => {
        block(h.ttlMs + h.ms(50))
        try {
          lease.assertHeld()
        } catch (error) {
          verdict = error
        }
        return 'finished'
      })
      await h.rejects(outcome, 'LOCK_LOST')
      assert.ok(isLockError(verdict, 'LOCK_LOST'), 'assertHeld found the lease valid')
    },
  },
  {
    id: 'PAUSE-3',
    title: 'a waiter paused while its grant came and expired does not use it when it resumes',
    kind: 'required',
    needs: ['processes', 'push'],
    async run(h) {
      const lock = h.name()
      const directory = await h.directory()
      const counter = join(directory, 'counter')
      writeFileSync(counter, '0')
      const [first, second, paused] = [await h.client(), await h.client(), await h.child({ ttlMs: h.ttlMs })]
      const waitMs = takeOverMs(h) * 10
      // Long enough that the wait has not timed out when the waiter resumes: it reads its grant first.
      const lease = await first.locks.lock(lock).acquire({ ttlMs: waitMs * 2 })
      const file = historyFile(directory, 'paused')
      const meet = async (): Promise<void> => {
        await h.eventually('the process waits', h.ms(5_000), () => paused.call('contended', { lock }))
        paused.pause()
        await lease.release()
        const recorder = recorderIn(h, directory, 'second')
        await recordedHold(second.locks, lock, { recorder, task: 'take over', waitMs }, async () => {
          await pass(h.ttlMs)
          paused.resume()
          // It answers, so it runs; a grant that it relied on would now be recorded.
          await paused.call('contended', { lock })
          await pass(h.ttlMs / 4)
        })
      }
      const load = { lock, tasks: 1, cycles: 1, waitMs, counter }
      await Promise.all([paused.call('contend', { ...load, process: 'paused', file }), meet()])
      assertHistory(h, directory, { floors: { grants: 2, contendedWaits: 1, faults: 0 } })
    },
  },
  {
    id: 'PAUSE-4',
    title:
      'a stale holder that resumes gets LOCK_LOST for extend and release, and its successor keeps the lock',
    kind: 'required',
    needs: ['processes'],
    async run(h) {
      const lock = h.name()
      const stale = await h.child({ ttlMs: h.ttlMs })
      const held = await stale.call('acquire', { lock })
      stale.pause()
      const { locks } = await h.client()
      const successor = await locks.lock(lock).acquire({ waitMs: takeOverMs(h) * 4 })
      stale.resume()
      await h.rejects(stale.call('extend', held), 'LOCK_LOST')
      await h.rejects(stale.call('release', held), 'LOCK_LOST')
      // After this the resumed process does nothing more at the store.
      await stale.call('close', {})
      await assertSoleHolder(h, successor)
      assertRising(h, [held.fence, successor.fence])
    },
  },
  {
    id: 'PAUSE-5',
    title: 'while the server hangs, the signal aborts by the local deadline; later locks can be acquired',
    kind: 'required',
    needs: ['server'],
    async run(h) {
      const { server } = h.subject
      assert.ok(server, 'this rule needs server')
      const { locks } = await h.client({ ttlMs: h.ttlMs })
      const lock = h.name()
      const lease = await locks.lock(lock).acquire()
      const { signal } = lease
      h.onEnd(async () => server.resume())
      await server.pause()
      const bound = { ms: h.ttlMs + h.ms(250), waitsMs: h.ttlMs, from: 'ttlMs + 250 ms' }
      await h.eventually('the signal aborts', bound, () => signal.aborted)
      assert.ok(isLockError(signal.reason, 'LOCK_LOST'))
      await pass(h.ttlMs / 2)
      await server.resume()
      const waitMs = takeOverMs(h) * 4 + h.ms(10_000)
      const next = await locks.lock(lock).acquire({ ttlMs: h.lastingMs, waitMs })
      assertRising(h, [lease.fence, next.fence])
      await assertSoleHolder(h, next)
    },
  },
  ...pausedLosses,
]
