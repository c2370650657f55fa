import type { AcquireOptions } from '@locks/core'
import type { Random } from './random.ts'

export const LONGEST_TTL_MS = 1_500
export const LONGEST_LOCK_DELAY_MS = 200

/** How one acquire goes, from the call to the end of its lease. */
export interface Choice {
  readonly name: string
  readonly kind: 'acquire' | 'try' | 'with'
  readonly waitMs: number
  readonly options: Omit<AcquireOptions, 'waitMs' | 'retry' | 'signal'>
  readonly abortAfterMs: number | undefined
  readonly end: 'release' | 'release twice' | 'forget' | 'hand over'
}

export type Step =
  | { readonly kind: 'write'; readonly afterMs: number; readonly stallMs: number }
  | { readonly kind: 'extend'; readonly afterMs: number; readonly ttlMs: number | undefined }
  | { readonly kind: 'block'; readonly afterMs: number; readonly ms: number }
  | { readonly kind: 're-enter'; readonly afterMs: number }

/** `owner` is the one that tasks of this client share. */
export function chooseAcquire(random: Random, names: readonly string[], owner: string): Choice {
  const kind = random.pick('acquire', 'acquire', 'try', 'with')
  const shared = random.chance(0.15)
  const others = random.pick('release twice', 'forget', kind === 'with' || shared ? 'release' : 'hand over')
  const end = random.chance(0.75) ? 'release' : others
  const renew = random.chance(0.7)
  return {
    // The first name is the busiest.
    name: names[Math.floor(random.next() * random.next() * names.length)] ?? 'a',
    kind,
    waitMs: random.pick(50, 300, 1_000, 3_000, 6_000),
    options: {
      ttlMs: random.pick(300, 600, LONGEST_TTL_MS),
      renew,
      ...(random.chance(0.1) ? { lockDelayMs: LONGEST_LOCK_DELAY_MS } : {}),
      ...(shared ? { owner } : {}),
      ...(end === 'forget' && renew ? { maxHoldMs: 1_000 } : {}),
    },
    abortAfterMs: random.chance(0.1) ? random.between(0, 400) : undefined,
    end,
  }
}

/** What the tasks of a run are like. */
export interface Manner {
  readonly extendShare: number
  /** How much longer than usual they take. */
  readonly slowness: number
}

export function chooseSteps(random: Random, manner: Manner): Step[] {
  return Array.from({ length: random.pick(1, 2, 3, 4) }, () => chooseStep(random, manner))
}

function chooseStep(random: Random, { extendShare, slowness }: Manner): Step {
  const longest = random.pick(2, 2, 2, 10, 10, 10, 20, 20, 40, 300, random.pick(100, 2_500))
  const afterMs = random.between(0, Math.min(2_500, slowness * longest))
  if (random.chance(extendShare)) {
    const ttlMs = random.pick(undefined, undefined, 300, 600, LONGEST_TTL_MS)
    return { kind: 'extend', afterMs, ttlMs }
  }
  const roll = random.next()
  if (roll < 0.1) return { kind: 're-enter', afterMs }
  if (roll < 0.12) return { kind: 'block', afterMs, ms: random.between(10, 2 * LONGEST_TTL_MS) }
  const stallMs = random.chance(0.02) ? random.between(10, 2 * LONGEST_TTL_MS) : 0
  return { kind: 'write', afterMs, stallMs }
}
