import type { Capabilities, Mode } from '../adapter/capabilities.ts'
import type { Clock } from '../adapter/time.ts'
import type { Duration } from '../adapter/duration.ts'

/** How long an acquire holds, waits and tries. Durations are whole milliseconds or strings such as `'10s'`. */
export type LockOptions<C extends Capabilities = Capabilities> = {
  /** Length of the lease, renewed after each third of it. Default: 30 s. A session-backed store uses its session's. */
  ttlMs?: Duration
  /** How long `acquire` waits for another holder; 0 tries once. Default: 10 s. */
  waitMs?: Duration
  /** `false`: the lease ends after `ttlMs` unless `extend` is called. Default: true. */
  renew?: boolean
  /** Renewal stops after this long and the lease expires, so that a stuck holder cannot keep the lock forever. */
  maxHoldMs?: Duration
  /** How to try again where the store cannot wake waiters, and while it fails. */
  retry?: RetryOptions
  /** Free text that `inspect` and time-out errors show for this holder. */
  label?: string
  /** Only `exclusive` exists. */
  mode?: Mode
} & (C['lockDelay'] extends false
  ? { lockDelayMs?: never }
  : {
      /**
       * After an abnormal end (crash, loss) the name stays blocked this long. A release frees it at once. Default: 0.
       */
      lockDelayMs?: Duration
    }) &
  (C['minHold'] extends false
    ? { minHoldMs?: never }
    : {
        /**
         * After a release the name stays held until this long after the grant, by the store's clock. Default: 0. At
         * most `maxHoldMs`. After a crash the hold ends with its ttl, even if that is earlier.
         */
        minHoldMs?: Duration
      })

/** Options of one acquire: those of a lock, and those of the caller. */
export type AcquireOptions<C extends Capabilities = Capabilities> = LockOptions<C> & {
  /** When aborted, the acquire rejects with the signal's reason and leaves nothing behind. */
  signal?: AbortSignal
  /** Acquires with the same owner re-enter each other's hold. Default: each acquire has its own owner. */
  owner?: string
}

/** Options of `locks.once`: those of an acquire, but without `waitMs` it tries once. */
export type OnceOptions<C extends Capabilities = Capabilities> = AcquireOptions<C> & {
  /** The name stays held until this long after the grant. Choose a little less than the job's period. */
  minHoldMs: Duration
}

/** Options of `locks.resume`. */
export type ResumeOptions = Pick<LockOptions, 'renew' | 'maxHoldMs' | 'label'>

/** Options of `locks.prune`. */
export interface PruneOptions {
  /** Names that were not granted for so long. Default: a day. */
  readonly idleMs?: Duration
  /** These alone. Default: all names. */
  readonly names?: readonly string[]
}

/** How often and how fast to try again. */
export interface RetryOptions {
  /** Most attempts at the store, at least 1; failed ones count. Default: no limit within `waitMs`. */
  attempts?: number
  /** First delay of the exponential back-off with full jitter. Default: 50 ms. */
  delayMs?: Duration
  /** Longest delay of the back-off. Default: 1 s. */
  maxDelayMs?: Duration
}

/** Options of a client: defaults for its locks, and its own settings. */
export type LocksOptions<C extends Capabilities = Capabilities> = LockOptions<C> & {
  /**
   * How long the store may fail or stay silent before a call gives up with `LOCK_UNAVAILABLE`. Default: 5 s. Until then
   * `tryAcquire` and `acquire` try again, also while the server refuses connections. A process that was paused past
   * that time waits up to 1 s more, for an answer that arrived meanwhile.
   */
  storeTimeoutMs?: Duration
  /** The name of the store in events, for programs with several clients. `openLocks` uses the name in the config. */
  store?: string
  /** Replaces the system's clock, timers and randomness, for simulations. */
  clock?: Clock
}

export const MAX_NAME_BYTES = 1024
export const MAX_OWNER_BYTES = 256
export const MAX_LABEL_BYTES = 256
