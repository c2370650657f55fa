import assert from 'node:assert/strict'
import type { Rule } from '../rule.ts'
import { assertInTime, pass } from './observe.ts'
import { takeWhenOver } from './steps.ts'

/** How long the store keeps a hold whose renewals change the length. */
export const lengths: readonly Rule[] = [
  {
    id: 'RENEW-19',
    title: 'after a longer ttl is over, the store keeps the hold only as long as the last renewal asked for',
    kind: 'required',
    needs: ['lease'],
    async run(h) {
      const [holder, other] = [h.adapter(), h.adapter()]
      const lock = h.name()
      const { ttlMs } = h
      const renew = (length: number): Promise<readonly string[]> =>
        holder.adapter.renew([{ grant, ttlMs: length, lockDelayMs: 0 }])
      const grant = await holder.take(holder.request(lock, { ttlMs }))
      const grantedAt = performance.now()
      const [first] = await renew(ttlMs * 4)
      if (first !== 'renewed') await assertInTime('a renewal', ttlMs, performance.now() - grantedAt)
      assert.equal(first, 'renewed')
      // From then on the longer promise ends before a shorter one made now. A timer may fire early.
      const until = performance.now() + ttlMs * 3
      while (performance.now() < until) await pass(until - performance.now())
      const [second] = await renew(ttlMs)
      // What is left of the longer promise.
      if (second !== 'renewed') await assertInTime('a renewal', ttlMs * 4, performance.now() - grantedAt)
      assert.equal(second, 'renewed')
      const renewedAt = performance.now()
      const { held, remainingMs } = await other.adapter.inspect(lock)
      if (!held) await assertInTime('a look', ttlMs, performance.now() - renewedAt)
      assert.ok(held, 'expired before its ttl')
      // A store may round up.
      if (remainingMs !== undefined)
        assert.ok(remainingMs <= ttlMs + 10, `${remainingMs} ms remain after a renewal of ${ttlMs} ms`)
      else await takeWhenOver(h, other, lock, ttlMs * 2.5)
    },
  },
]
