import type { Capabilities, Mode } from '../adapter/capabilities.ts'
import { MAX_TIMER_MS } from '../adapter/clock.ts'
import type { Clock } from '../adapter/clock.ts'
import type { Duration } from './duration.ts'

/** How long one acquire holds, waits and tries. Durations are whole milliseconds or texts such as `'10s'`. */
export type LockOptions<C extends Capabilities = Capabilities> = {
  /** Length of the lease, 30 s unless told; renewed every third of it. A session-backed store grants its session's. */
  ttlMs?: Duration
  /** How long `acquire` waits for another holder: 10 s unless told, 0 = try once. */
  waitMs?: Duration
  /** `false` makes a fixed lease: it ends after `ttlMs` unless extended by hand. */
  renew?: boolean
  /** Renewal stops after this long, so that a stuck holder cannot keep the lock for ever: the lease then runs out. */
  maxHoldMs?: Duration
  /** How to try again where the store cannot wake a waiter, and while it fails. */
  retry?: RetryOptions
  /** Free text that `inspect` and time-out errors show of this holder. */
  label?: string
  /** `exclusive`, which is all there is. */
  mode?: Mode
} & (C['lockDelay'] extends false
  ? { lockDelayMs?: never }
  : {
      /** After an abnormal end (crash, loss) the name stays blocked this long. A release frees it at once. */
      lockDelayMs?: Duration
    }) &
  (C['minHold'] extends false
    ? { minHoldMs?: never }
    : {
        /**
         * After a release the name stays taken until this long after the grant, by the store's clock. Default: 0. At
         * most `maxHoldMs`. A hold that ends by a crash ends after its ttl, even if that is earlier.
         */
        minHoldMs?: Duration
      })

/** Those of one acquire: what a lock has, and who asks. */
export type AcquireOptions<C extends Capabilities = Capabilities> = LockOptions<C> & {
  /** Gives up when aborted and rejects with the signal's reason; nothing is left behind. */
  signal?: AbortSignal
  /** Acquires of equal owner re-enter each other's hold. Unless told, every acquire is an owner of its own. */
  owner?: string
}

/** Those of `locks.once`: as of an acquire, but without `waitMs` it tries once. */
export type OnceOptions<C extends Capabilities = Capabilities> = AcquireOptions<C> & {
  /** The name stays taken until this long after the grant: a little less than the job's period. */
  minHoldMs: Duration
}

/** How often and how fast to try again. */
export interface RetryOptions {
  /** Tries at the store in all, 1 or more; those that fail count. Default: no limit within `waitMs`. */
  attempts?: number
  /** First delay of the exponential back-off with full jitter, 50 ms unless told. */
  delayMs?: Duration
  /** Cap of the back-off, 1 s unless told. */
  maxDelayMs?: Duration
}

/** What a client is made with: defaults of its locks, and settings of its own. */
export type LocksOptions<C extends Capabilities = Capabilities> = LockOptions<C> & {
  /**
   * How long the store may fail or stay silent before a call gives up with `LOCK_UNAVAILABLE`. Default: 5 s. Until then
   * `tryAcquire` and `acquire` try again, also while the server refuses connections. A process that itself stood still
   * past that time waits up to 1 s more after going on, for an answer that came meanwhile.
   */
  storeTimeoutMs?: Duration
  /** A name for the store in events, so that those of several clients can be told apart. `openLocks` gives the config's. */
  store?: string
  /** Replaces the system's clock, timers and randomness: for simulations. */
  clock?: Clock
}

/** Options with every default filled in; what the rest of core works on. */
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

/** The documented range of every duration and count, in one place. */
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

export const MAX_NAME_BYTES = 1024
export const MAX_OWNER_BYTES = 256
export const MAX_LABEL_BYTES = 256
