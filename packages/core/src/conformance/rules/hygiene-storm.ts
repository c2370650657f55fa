import assert from 'node:assert/strict'
import { isLockError } from '../../adapter/lock-error.ts'
import type { Lease } from '../../api/contract.ts'
import type { AdapterMethod, Fault } from '../faulty-adapter.ts'
import type { TestClient } from '../harness.ts'
import type { Rule } from '../rule.ts'
import { acquireWhenReachable, pass, soonFree } from './observe.ts'

const seed = 20_260_101

/** One fault each. The reply to a withdrawal is never lost for good: its queue entry could then stay at the store. */
function faultsOf(brief: number): readonly (readonly [AdapterMethod, Fault])[] {
  const passing: readonly Fault[] = ['fail', 'lose-reply', { delayMs: brief }, { lateMs: brief }]
  const lasting: readonly Fault[] = [...passing, 'hang', 'swallow-reply']
  const of = (method: AdapterMethod, faults: readonly Fault[]): [AdapterMethod, Fault][] =>
    faults.map((fault) => [method, fault])
  const hit = ['attempt', 'wait', 'renew', 'release'] as const
  return [...hit.flatMap((method) => of(method, lasting)), ...of('withdraw', passing)]
}

/** Mulberry32: the same choices in every run, so that a failure can be reproduced. */
function randomFrom(start: number): (below: number) => number {
  let state = start
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

export const storm: Rule = {
  id: 'HYG-5',
  title: 'a storm of faults causes only LockErrors, lets in no second holder, and leaves nothing behind',
  kind: 'stochastic',
  timeoutMs: 60_000,
  async run(h) {
    const random = randomFrom(seed)
    const pick = <T>(list: readonly T[]): T => {
      const picked = list[random(list.length)]
      assert.ok(picked !== undefined)
      return picked
    }
    const faults = faultsOf(h.ms(20))
    // Short enough that some are renewed.
    const ttlMs = Math.max(h.capabilities.minTtlMs, Math.floor(h.ttlMs / 2))
    const options = { ttlMs, storeTimeoutMs: h.ms(400), waitMs: h.ms(300) }
    const clients = await Promise.all(Array.from({ length: 3 }, () => h.client(options)))
    const names = [h.name(), h.name(), h.name()]
    const latest = new Map<string, Lease>()
    const outcomes = { granted: 0, failed: 0 }
    const cycle = async ({ locks, faults: injected }: TestClient): Promise<void> => {
      injected.inject(...pick(faults), 1)
      try {
        const lease = await locks.lock(pick(names)).acquire()
        outcomes.granted += 1
        const state = latest.get(lease.name)?.state
        assert.ok(state !== 'held' && state !== 'jeopardy', `two holders of ${lease.name}`)
        latest.set(lease.name, lease)
        await pass(pick([0, 0, ttlMs / 2]))
        await lease.release()
      } catch (error) {
        if (!isLockError(error)) throw error
        outcomes.failed += 1
      }
    }
    const tasks = clients.flatMap((client) =>
      Array.from({ length: 3 }, async () => {
        for (let n = 0; n < 15; n += 1) await cycle(client)
      }),
    )
    await Promise.all(tasks)
    // Not a promise, but a condition of the test: a paused machine may leave too little time.
    if (outcomes.granted < 10 || outcomes.failed < 10)
      throw new Error(`no storm: ${JSON.stringify(outcomes)}`)
    for (const client of clients) {
      client.faults.heal()
      const lease = await acquireWhenReachable(h, client, h.name())
      // A session keeps a hold whose release did not arrive until it ends.
      // With such a short bound, a store that is slow to do either is late.
      for (const end of [() => lease.release(), () => client.locks.close()])
        await end().catch((error: unknown) => assert.ok(isLockError(error), String(error)))
    }
    for (const lock of names) await soonFree(h, lock, h.ttlMs * 2 + h.ms(2_000))
  },
}
