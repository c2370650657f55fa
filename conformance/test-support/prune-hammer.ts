import type { Locks } from '@locks/core'
import assert from 'node:assert/strict'
import { setImmediate as next, setTimeout as pass } from 'node:timers/promises'

export interface Hammering {
  /** Tries per client. */
  readonly tries: number
  /** How often the name must have been dropped meanwhile: they go on until then. */
  readonly atLeast: number
}

/** So many times the tries at most, where the name is hardly ever free when it is pruned. */
const MOST = 100

/**
 * Several clients acquire one name while others prune everything that is free. Whatever happens in between: one
 * holder at a time, and a fence above all earlier ones.
 */
export async function hammerPrune(
  open: () => Locks,
  name: string,
  { tries, atLeast }: Hammering,
): Promise<void> {
  const fences: bigint[] = []
  let holders = 0
  let pruned = 0
  let users = 4

  async function use(locks: Locks): Promise<void> {
    for (let n = 0; n < tries || (pruned < atLeast && n < MOST * tries); n += 1) {
      const lease = await locks.lock(name).tryAcquire()
      if (lease !== null) {
        holders += 1
        assert.equal(holders, 1, `${holders} hold ${name} at the same time`)
        fences.push(lease.fence)
        if (n % 3 === 0) await pass(1)
        holders -= 1
        await lease.release()
      }
      // Free for a moment, so that it can be dropped; for longer if that was hardly ever possible.
      await pass(Math.random() * 3 * (1 + n / tries))
    }
    users -= 1
  }

  async function prune(locks: Locks): Promise<void> {
    while (users > 0) {
      const names = await locks.prune({ idleMs: 0 })
      pruned += names
      // A store in memory would leave the others no time.
      await next()
    }
  }

  const clients = Array.from({ length: 6 }, open)
  await Promise.all(clients.map((locks, n) => (n < 4 ? use(locks) : prune(locks))))
  const fallen = fences.findIndex((fence, n) => n > 0 && fence <= (fences[n - 1] ?? 0n))
  assert.equal(fallen, -1, `fence ${fences[fallen]} follows ${fences[fallen - 1]}`)
  assert.ok(pruned >= atLeast, `pruned ${pruned} times, so hardly ever while others acquired`)
}
