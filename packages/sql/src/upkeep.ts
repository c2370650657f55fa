import type { Finding } from '@locks/core/adapter'

/** So many names are deleted by one statement: it holds their locks only briefly. */
export const PRUNE_BATCH = 500

/** Free names of which a row is kept. */
export interface Leftovers {
  readonly names: number
  /** Since the oldest of them was last granted. */
  readonly oldestMs: number
}

const DAY_MS = 86_400_000

/** By then a client has pruned, if one releases anything at all. */
const LATE = 2

export function leftoversFinding({ names, oldestMs }: Leftovers, fenceIdleMs: number): Finding {
  const check = 'leftovers'
  const days = (oldestMs / DAY_MS).toFixed(1)
  const message = `rows of ${names} free names are kept, the oldest for ${days} days`
  if (fenceIdleMs === 0) {
    if (oldestMs < DAY_MS) return { check, level: 'ok', message }
    const advice = 'run locks prune now and then, or set fenceIdleMs above 0'
    return { check, level: 'warning', message: `${message}; fenceIdleMs is 0`, advice }
  }
  if (oldestMs < fenceIdleMs * LATE) return { check, level: 'ok', message }
  const advice = 'run locks prune; clients prune behind their releases once they run for ten minutes'
  return { check, level: 'warning', message, advice }
}
