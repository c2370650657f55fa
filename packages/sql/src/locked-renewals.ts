import { orAfter } from '@locks/core/adapter'
import type { Clock, Renewal, RenewOutcome } from '@locks/core/adapter'

/** The longest wait for rows that other sessions have locked; a quarter of the shortest ttl if that is less. */
const PATIENCE_MS = 1_000

/**
 * Renews holds whose row was locked by another session. Each waits in the server's queue for its row: polling would
 * lose against sessions that lock it without a pause. They run one after the other, so that rows that stay locked do
 * not keep all connections. An outcome that is late or failed is missing from the result: it is unknown.
 */
export async function renewLocked(
  renewals: readonly Renewal[],
  clock: Clock,
  renew: (renewal: Renewal, patienceMs: number) => Promise<RenewOutcome>,
): Promise<ReadonlyMap<Renewal, RenewOutcome>> {
  const outcomes = new Map<Renewal, RenewOutcome>()
  if (renewals.length === 0) return outcomes
  const allMs = Math.min(PATIENCE_MS, ...renewals.map(({ ttlMs }) => ttlMs / 4))
  const giveUpAt = clock.now() + allMs
  let over = false
  const oneByOne = async (): Promise<void> => {
    for (const [n, renewal] of renewals.entries()) {
      const patienceMs = Math.floor((giveUpAt - clock.now()) / (renewals.length - n))
      if (over || patienceMs < 1) return
      const outcome = await renew(renewal, patienceMs).catch(() => 'unknown' as const)
      if (!over) outcomes.set(renewal, outcome)
    }
  }
  await orAfter(clock, allMs, oneByOne())
  over = true
  return outcomes
}
