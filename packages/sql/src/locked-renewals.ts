import type { Clock, Renewal, RenewOutcome } from '@locks/core/adapter'

/** How long renewals wait for rows that others have locked: a part of the shortest ttl, and never longer than this. */
const PATIENCE_MS = 1_000

/**
 * For renewals whose row was locked when it was looked at: each stands in line for its row, since many may ask for it
 * without a pause. One after the other, so that rows which stay locked do not keep all connections. The outcome of what
 * takes too long, or fails, is missing from the answer: it is not known.
 */
export async function renewLocked(
  renewals: readonly Renewal[],
  clock: Clock,
  renew: (renewal: Renewal, patienceMs: number) => Promise<RenewOutcome>,
): Promise<ReadonlyMap<Renewal, RenewOutcome>> {
  const outcomes = new Map<Renewal, RenewOutcome>()
  const allMs = Math.min(PATIENCE_MS, ...renewals.map(({ ttlMs }) => ttlMs / 4))
  const giveUpAt = clock.now() + allMs
  let over = false
  const inTurn = async (): Promise<void> => {
    for (const [n, renewal] of renewals.entries()) {
      const patienceMs = Math.floor((giveUpAt - clock.now()) / (renewals.length - n))
      if (over || patienceMs < 1) return
      const outcome = await renew(renewal, patienceMs).catch(() => 'unknown' as const)
      if (!over) outcomes.set(renewal, outcome)
    }
  }
  await new Promise<void>((resolve) => {
    const timer = clock.timer(allMs, resolve)
    void inTurn().then(() => {
      timer.cancel()
      resolve()
    })
  })
  over = true
  return outcomes
}
