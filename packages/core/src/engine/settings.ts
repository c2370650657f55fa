import type { Mode } from '../adapter/capabilities.ts'
import { MAX_TIMER_MS } from '../adapter/time.ts'

/** Options with all defaults filled in. */
export interface Settings {
  readonly ttlMs: number
  readonly waitMs: number
  readonly renew: boolean
  readonly maxHoldMs: number
  readonly lockDelayMs: number
  readonly minHoldMs: number
  readonly label: string | undefined
  readonly mode: Mode
  readonly attempts: number
  readonly delayMs: number
  readonly maxDelayMs: number
  readonly signal: AbortSignal | undefined
  readonly owner: string | undefined
  /** Whether it may re-enter a hold of its owner or of an enclosing callback. */
  readonly reenters: boolean
}

export const defaultSettings: Settings = {
  ttlMs: 30_000,
  waitMs: 10_000,
  renew: true,
  maxHoldMs: Infinity,
  lockDelayMs: 0,
  minHoldMs: 0,
  label: undefined,
  mode: 'exclusive',
  attempts: Infinity,
  delayMs: 50,
  maxDelayMs: 1_000,
  signal: undefined,
  owner: undefined,
  reenters: true,
}

export type RangeKey =
  | 'ttlMs'
  | 'waitMs'
  | 'maxHoldMs'
  | 'lockDelayMs'
  | 'minHoldMs'
  | 'storeTimeoutMs'
  | 'attempts'
  | 'delayMs'
  | 'maxDelayMs'
  | 'limit'

/** The range of every duration and count. */
export const ranges: Readonly<Record<RangeKey, readonly [min: number, max: number]>> = {
  ttlMs: [10, 86_400_000],
  waitMs: [0, MAX_TIMER_MS],
  maxHoldMs: [1, MAX_TIMER_MS],
  lockDelayMs: [0, 3_600_000],
  minHoldMs: [0, MAX_TIMER_MS],
  storeTimeoutMs: [1, 600_000],
  attempts: [1, 1_000_000],
  delayMs: [1, 3_600_000],
  maxDelayMs: [1, 3_600_000],
  limit: [1, 1_000_000],
}
