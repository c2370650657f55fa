import assert from 'node:assert/strict'
import { setTimeout as pass } from 'node:timers/promises'
import { memoryGuard } from '../../api/guard.ts'
import { isLockError } from '../../adapter/lock-error.ts'
import type { Lease } from '../../api/contract.ts'
import type { Rule } from '../rule.ts'
import { assertRising, assertSoleHolder, startWaiting, takeOverMs, takeWhenOver } from './steps.ts'

export const fencing: readonly Rule[] = [
  {
    id: 'FENCE-1',
    title: 'each holder of a name gets a higher fence than the one before, across all clients',
    kind: 'required',
    needs: ['fencing'],
    async run(h) {
      const clients = await Promise.all(Array.from({ length: 4 }, () => h.client()))
      const lock = h.name()
      const fences: bigint[] = []
      for (let round = 0; round < 5; round += 1)
        for (const { locks } of clients) await locks.with(lock, ({ fence }) => void fences.push(fence))
      assertRising(h, fences)
    },
  },
  {
    id: 'FENCE-2',
    title: 'a hold has one fence: the same on re-entry, after renewals and at the store',
    kind: 'required',
    needs: ['fencing'],
    async run(h) {
      const [{ locks }, other] = [await h.client({ ttlMs: h.ttlMs }), await h.client()]
      const lock = h.name()
      await locks.with(lock, async (lease) => {
        const { fence, sequencer } = lease
        await locks.with(lock, (inner) => assert.equal(inner.fence, fence))
        await pass(h.ttlMs * 1.2)
        await locks.with(lock, (inner) => assert.equal(inner.fence, fence))
        const isValid = await other.locks.checkSequencer(sequencer)
        // If it was lost meanwhile, the store is right.
        if (!isValid) lease.assertHeld()
        assert.ok(isValid, 'the store has another fence than the holder')
      })
    },
  },
  {
    id: 'FENCE-3',
    title: 'fences rise from process to process, whether a holder released or was killed',
    kind: 'required',
    needs: ['fencing', 'processes'],
    async run(h) {
      const lock = h.name()
      const options = { waitMs: takeOverMs(h) * 4 }
      const children = await Promise.all(Array.from({ length: 3 }, () => h.child({ ttlMs: h.ttlMs })))
      const fences: bigint[] = []
      for (const [n, child] of children.entries()) {
        const { lease, fence } = await child.call('acquire', { lock, options })
        fences.push(fence)
        if (n === 0) await child.call('release', { lease })
        else await child.kill()
      }
      const { locks } = await h.client()
      await locks.with(lock, options, ({ fence }) => void fences.push(fence))
      assertRising(h, fences)
    },
  },
  {
    id: 'FENCE-4',
    title: 'a guard refuses the write of a stale holder once its successor has registered',
    kind: 'required',
    needs: ['fencing'],
    async run(h) {
      const [stale, fresh] = [await h.client({ ttlMs: h.ttlMs }), await h.client()]
      const lock = h.name()
      const guard = memoryGuard()
      let written = 'nothing'
      const write = (by: Lease, what: string): Promise<void> =>
        guard.run(by.fence, () => void (written = what))
      const old = await stale.locks.lock(lock).acquire()
      await write(old, 'by the first')
      stale.faults.inject('renew', 'fail')
      const successor = await fresh.locks.lock(lock).acquire({ waitMs: takeOverMs(h) * 4 })
      await guard.register(successor.fence)
      await h.rejects(write(old, 'by the stale one'), 'LOCK_LOST')
      assert.equal(written, 'by the first')
      await write(successor, 'by the successor')
      assert.equal(written, 'by the successor')
    },
  },
  {
    id: 'FENCE-5',
    title: 'a fence is a bigint of 1 or more',
    kind: 'required',
    needs: ['fencing'],
    async run(h) {
      const { locks } = await h.client()
      const beneath = h.adapter()
      const { fence: granted } = await beneath.take(beneath.request(h.name()))
      const fences = [granted]
      await locks.with(h.name(), ({ fence }) => void fences.push(fence))
      for (const fence of fences) {
        assert.equal(typeof fence, 'bigint')
        assert.ok(fence >= 1n, `fence ${fence}`)
      }
    },
  },
  {
    id: 'FENCE-6',
    title:
      'the successor of an expired hold gets a higher fence, and the expired one cannot get its own back',
    kind: 'required',
    needs: ['fencing', 'lease'],
    async run(h) {
      const [silent, next] = [h.adapter(), h.adapter()]
      const lock = h.name()
      const expired = silent.request(lock, { ttlMs: h.ttlMs })
      const { fence } = await silent.take(expired)
      const grant = await takeWhenOver(h, next, lock)
      assertRising(h, [fence, grant.fence])
      await next.adapter.release(grant)
      const again = await silent.take(expired)
      assertRising(h, [grant.fence, again.fence])
    },
  },
  {
    id: 'FENCE-7',
    title: 'a sequencer is valid while its hold lasts: not after the release, nor under a successor',
    kind: 'required',
    needs: ['fencing'],
    async run(h) {
      const [holder, other] = [await h.client(), await h.client()]
      const lock = h.name()
      const first = await holder.locks.lock(lock).acquire()
      assert.equal(await other.locks.checkSequencer(first.sequencer), true)
      await first.release()
      assert.equal(await other.locks.checkSequencer(first.sequencer), false)
      const second = await holder.locks.lock(lock).acquire()
      assert.equal(await other.locks.checkSequencer(first.sequencer), false)
      assert.equal(await other.locks.checkSequencer(second.sequencer), true)
      for (const garbage of ['', 'garbage', `${second.sequencer}!`, `x${second.sequencer}`])
        await h.rejects(other.locks.checkSequencer(garbage), 'LOCK_INVALID_ARGUMENT')
    },
  },
  {
    id: 'FENCE-8',
    title: 'a fence is minted at the grant, not before the wait: fences rise in the order of holds',
    kind: 'required',
    needs: ['fencing'],
    async run(h) {
      const [a, b, c] = [h.adapter(), h.adapter(), h.adapter()]
      const lock = h.name()
      const [early, late] = [b.request(lock), c.request(lock)]
      const held = await a.take(a.request(lock))
      assert.ok('busy' in (await b.adapter.attempt(early)))
      await a.adapter.release(held)
      const overtaking = await c.take(late)
      await c.adapter.release(overtaking)
      const last = await b.take(early)
      assertRising(h, [held.fence, overtaking.fence, last.fence])

      const clients = await Promise.all(Array.from({ length: 4 }, () => h.client()))
      const waits = clients.map(({ locks }) => startWaiting(locks, lock, h.ms(20_000)))
      const fences = [last.fence]
      const holds = (await Promise.all(waits)).map(async ({ granted }) => {
        const lease = await granted
        fences.push(lease.fence)
        await lease.release()
      })
      await Promise.all([b.adapter.release(last), ...holds])
      assertRising(h, fences)
    },
  },
  {
    id: 'FENCE-9',
    title: 'fences rise across abrupt restarts of the server in mid-hold',
    kind: 'required',
    needs: ['fencing', 'restart'],
    timeoutMs: 120_000,
    async run(h) {
      const { server } = h.subject
      const lock = h.name()
      const fences: bigint[] = []
      for (let round = 0; round < 3; round += 1) {
        const { locks } = await h.client({ ttlMs: h.ttlMs })
        const lease = await locks.lock(lock).acquire({ waitMs: takeOverMs(h) * 4 + h.ms(10_000) })
        fences.push(lease.fence)
        await server?.restart?.()
        // The hold may or may not have survived the restart.
        await lease.release().catch((error: unknown) => assert.ok(isLockError(error), String(error)))
      }
      const { locks } = await h.client()
      const last = await locks.lock(lock).acquire({ waitMs: takeOverMs(h) * 4 + h.ms(10_000) })
      assertRising(h, [...fences, last.fence])
    },
  },
  {
    id: 'FENCE-10',
    title: 'the fences of a name still rise after it was idle and other names were used',
    kind: 'required',
    needs: ['fencing'],
    async run(h) {
      // Without core: a hold that ends before its release is no failure here.
      const { adapter, request, take } = h.adapter({ ttlMs: h.ttlMs })
      const lock = h.name()
      const fences: bigint[] = []
      const use = async (name: string): Promise<bigint> => {
        const grant = await take(request(name))
        await adapter.release(grant)
        return grant.fence
      }
      for (let n = 0; n < 5; n += 1) fences.push(await use(lock))
      await Promise.all(Array.from({ length: 30 }, () => use(h.name())))
      fences.push(await use(lock))
      // Longer than any of its leases: only the counter itself can still have the value.
      await pass(h.ttlMs * 1.2)
      fences.push(await use(lock))
      assertRising(h, fences)
    },
  },
  {
    id: 'FENCE-11',
    title: 'a resent attempt gets the fence that was minted for it, even if others were minted since',
    kind: 'required',
    needs: ['fencing'],
    async run(h) {
      const [a, b] = [h.adapter(), h.adapter()]
      const lock = h.name()
      const request = a.request(lock)
      const { fence } = await a.take(request)
      const churn = async (): Promise<void> => {
        for (let n = 0; n < 5; n += 1) {
          await b.take(b.request(h.name()))
          assert.ok('busy' in (await b.adapter.attempt(b.request(lock))))
        }
      }
      const resends = Array.from({ length: 5 }, () => a.take(request))
      await Promise.all([churn(), ...resends])
      const answers = [...(await Promise.all(resends)), await a.take(request)]
      for (const answer of answers) assert.equal(answer.fence, fence)
      assert.equal((await b.adapter.inspect(lock)).holder?.fence, fence)
    },
  },
  {
    id: 'FENCE-12',
    title: 'an idle name that was pruned gets fences above every earlier one, and held names are not pruned',
    kind: 'required',
    needs: ['fencing'],
    async run(h) {
      const [user, other, operator] = [await h.client(), await h.client(), await h.client()]
      const [idle, held] = [h.name(), h.name()]
      const fences: bigint[] = []
      const use = (): Promise<void> => user.locks.with(idle, ({ fence }) => void fences.push(fence))
      for (let n = 0; n < 5; n += 1) await use()
      const lease = await other.locks.lock(held).acquire()
      for (let round = 0; round < 3; round += 1) {
        await pass(h.ms(60))
        await operator.locks.prune({ idleMs: 50, names: [idle, held] })
        for (let n = 0; n <= round; n += 1) await use()
      }
      assertRising(h, fences)
      await assertSoleHolder(h, lease)
    },
  },
]
