import { ok, warning } from '@locks/core/adapter'
import type { Finding, Versioned } from '@locks/core/adapter'
import { decode } from '../record.ts'

/** How many records a finding looks at. */
const MOST = 10_000

const DAY_MS = 86_400_000

/** After so long clients have dropped a record by themselves, by the default of `fenceIdleMs`. */
const LATE_MS = 2 * DAY_MS

const CHECK = 'leftovers'

/** How many records are kept, and how old those of holders that crashed are. `nowMs` is the server's clock. */
export async function leftoversFinding(values: AsyncIterable<Versioned>, nowMs: number): Promise<Finding> {
  let [kept, crashed, oldestMs, isAll] = [0, 0, 0, true]
  for await (const { value, version } of values) {
    kept += 1
    const ageMs = nowMs - Number(version / 1_000n)
    const held = decode(value)
    if (held !== undefined && ageMs > held.ttlMs + held.lockDelayMs) {
      crashed += 1
      oldestMs = Math.max(oldestMs, ageMs)
    }
    if (kept >= MOST) {
      isAll = false
      break
    }
  }
  const message = `the records of ${isAll ? kept : `at least ${kept}`} names are kept`
  if (crashed === 0) return ok(CHECK, message)
  const left = `${message}; ${crashed} of holders that crashed, the oldest for ${(oldestMs / DAY_MS).toFixed(1)} days`
  if (oldestMs < LATE_MS) return ok(CHECK, left)
  const later = 'clients prune after their releases, once they have run for ten minutes'
  return warning(CHECK, left, `run locks prune; ${later}`)
}

/** For a store whose records stay. */
export async function lastingFinding(values: AsyncIterable<Versioned>): Promise<Finding> {
  let kept = 0
  for await (const _ of values) if (++kept >= MOST) break
  if (kept < MOST) return ok(CHECK, `the records of ${kept} names are kept; they never expire`)
  return warning(
    CHECK,
    `the records of at least ${kept} names are kept; they never expire`,
    'use fewer names, or delete the keys under the prefix while no lock is in use',
  )
}
