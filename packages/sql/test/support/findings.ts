import type { Finding, Locks } from '@locks/core'
import { assertInTime } from '@locks/core/conformance'

/** A round trip that takes longer is a warning. */
const SLOW_MS = 100

/**
 * What `diagnose` finds, where a round trip to a server of this machine is fast: one that was slow only because the
 * machine stood still makes the run void.
 */
export async function findingsOf(locks: Pick<Locks, 'diagnose'>): Promise<readonly Finding[]> {
  const askedAt = performance.now()
  const found = await locks.diagnose()
  const tookMs = performance.now() - askedAt
  const slow = found.find(({ check, level }) => check === 'round-trip' && level !== 'ok')
  const [, roundTripMs] = /takes ([\d.]+) ms/.exec(slow?.message ?? '') ?? []
  if (roundTripMs !== undefined)
    await assertInTime('a round trip, and the rest', tookMs - Number(roundTripMs) + SLOW_MS, tookMs)
  return found
}
