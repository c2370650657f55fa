import type { Capabilities } from '../adapter/capabilities.ts'
import type { Finding, Holder, LockState } from '../adapter/spi.ts'
import type { Duration } from '../adapter/duration.ts'
import type { LockEventName, LockEvents } from '../engine/events.ts'
import type { LeaseState } from '../engine/hold.ts'
import type { AcquireOptions, LockOptions, OnceOptions, PruneOptions, ResumeOptions } from './options.ts'

// What programs use, and what it promises: a client has locks, and a lock has leases.

/** A client for one store. A program makes it once and closes it at its end. */
export interface Locks<C extends Capabilities = Capabilities> extends AsyncDisposable {
  /** What the store supports, and its limits. */
  readonly capabilities: C
  /** The lock with that name: cheap to make, holds nothing itself, and may be shared. */
  lock(name: string, options?: LockOptions<C>): Lock<C>
  /** Short for `lock(name).with(…)`. */
  with<T>(name: string, fn: (lease: Lease<C>) => T | Promise<T>): Promise<T>
  with<T>(name: string, options: AcquireOptions<C>, fn: (lease: Lease<C>) => T | Promise<T>): Promise<T>
  /**
   * Runs `fn` at most once per period, however many hosts call it. `fn` runs while holding the lock, which then stays
   * held until `minHoldMs` after the grant. If the lock is held, it returns the holder instead; it waits only if
   * `waitMs` is given. It never re-enters, not even with an `owner`. Failures throw, as in `with`.
   */
  once<T>(
    this: C['minHold'] extends false ? never : Locks<C>,
    name: string,
    options: OnceOptions<C>,
    fn: (lease: Lease<C>) => T | Promise<T>,
  ): Promise<Once<T>>
  /** Who holds the lock, since when, and how long remains, according to the store. */
  inspect(name: string): Promise<LockState>
  /** The locks that are held now by any client, at most `limit` of them. Default: 1,000. For operators. */
  list(
    this: C['list'] extends false ? never : Locks<C>,
    options?: { readonly limit?: number },
  ): Promise<readonly LockState[]>
  /** Checks the store and its settings. Each finding says what to do about it. For operators. */
  diagnose(): Promise<readonly Finding[]>
  /**
   * Drops what the store keeps about names that are free and were not granted for `idleMs`. Default: a day. Returns the
   * number of names. If such a name is used again, its fences are still higher than all earlier ones. Clients do this
   * after releases; operators call it when they do not want to wait for that.
   */
  prune(options?: PruneOptions): Promise<number>
  /**
   * Whether the hold that `lease.sequencer` refers to is still the current one at the store. Throws `LOCK_UNSUPPORTED`
   * where `capabilities.fencing` is `none`.
   */
  checkSequencer(sequencer: string): Promise<boolean>
  /** Continues a lease from `lease.serialize()`. Only one caller succeeds; any other gets `LOCK_LOST`. */
  resume(
    this: C['handover'] extends false ? never : Locks<C>,
    text: string,
    options?: ResumeOptions,
  ): Promise<Lease<C>>
  /** Calls `listener` for every event with that name. Returns a function that removes the listener. */
  on<K extends LockEventName>(event: K, listener: (payload: LockEvents[K]) => void): () => void
  /** Ends waits with `LOCK_CLOSED`, releases all holds within a bounded time, and closes the adapter. */
  close(): Promise<void>
}

/** A named lock. Cheap to make, holds nothing itself, and safe to share between tasks. */
export interface Lock<C extends Capabilities = Capabilities> {
  readonly name: string
  /** Waits for the lock and returns its lease. Throws `LOCK_TIMEOUT` if another holder kept it for `waitMs`. */
  acquire(options?: AcquireOptions<C>): Promise<Lease<C>>
  /**
   * Tries without waiting for a holder. Returns `null` if the lock is held, and throws on any other failure. While the
   * store fails it tries again, for `storeTimeoutMs` or `retry.attempts`.
   */
  tryAcquire(options?: Omit<AcquireOptions<C>, 'waitMs'>): Promise<Lease<C> | null>
  /**
   * Runs `fn` while holding the lock. Inside `fn`, acquiring the same name again re-enters. A failed release never
   * replaces the outcome of `fn`; a lock lost meanwhile always throws `LOCK_LOST`.
   */
  with<T>(fn: (lease: Lease<C>) => T | Promise<T>): Promise<T>
  with<T>(options: AcquireOptions<C>, fn: (lease: Lease<C>) => T | Promise<T>): Promise<T>
  inspect(): Promise<LockState>
  /**
   * Ends the current hold. For operators: the next waiter gets the lock under a higher fence, and the broken holder
   * finds out with its next renewal. Returns the broken holder, or `null` if the lock was free or, with a `fence`, if
   * the hold with that fence has ended.
   */
  break(
    this: C['break'] extends false ? never : Lock<C>,
    options?: { readonly fence?: bigint },
  ): Promise<Holder | null>
}

/** The result of `locks.once`: the value of its callback, or the holder that already ran in this period. */
export type Once<T> =
  | { readonly ran: true; readonly value: T }
  | { readonly ran: false; readonly holder: Holder | undefined }

/**
 * Proof of holding a lock, until it is released or lost. Its state follows the local monotonic clock, so it is correct
 * even when the store does not answer.
 */
export interface Lease<C extends Capabilities = Capabilities> extends AsyncDisposable {
  readonly name: string
  readonly owner: string
  /** Fencing token, higher than that of every earlier holder of this name. Pass it to the protected resource. */
  readonly fence: bigint
  /** Name, mode and fence as an opaque string, for `locks.checkSequencer`. */
  readonly sequencer: string
  /** Aborts when the lease is lost or the client closes, with a `LockError` as the reason. Not on release. */
  readonly signal: AbortSignal
  /**
   * `jeopardy`: a renewal is overdue, and the lease is still valid for `remainingMs`. Where a hold ends with its
   * connection (`capabilities.kind`), also after the event loop was blocked, until the connection has been read.
   */
  readonly state: LeaseState
  /** How long the lease stays valid if it is not renewed, by the local clock; 0 if it ended or is in doubt. */
  readonly remainingMs: number
  /**
   * Throws `LOCK_LOST` (or `LOCK_NOT_OWNED` after a release) unless the lease is valid right now. Call it before each
   * critical step: code that does not yield to the event loop cannot see `signal` abort. Where a hold ends with its
   * connection, it throws `LOCK_UNAVAILABLE` after the event loop was blocked for more than 500 ms, until the
   * connection has been read; `await lease.extend()` asks the store.
   */
  assertHeld(): void
  /**
   * Renews the lease now. A `ttlMs` counts from now and applies to later renewals too. Never shortens the lease.
   * Rejects if the store did not confirm it.
   */
  extend(ttlMs?: Duration): Promise<void>
  /**
   * Releases the lease. A re-entered hold is freed by the release of its last lease. Rejects with `LOCK_LOST` if the
   * lease was lost, with `LOCK_NOT_OWNED` if it was released before, and with `LOCK_UNAVAILABLE` if the store did not
   * confirm the release: call it again, or let the ttl free the lock.
   */
  release(): Promise<void>
  /**
   * Ends the lease in this process without releasing the lock, and returns a string with which `locks.resume` continues
   * it in another process before the ttl ends. The string is a credential. Requires `capabilities.handover`.
   */
  serialize(this: C['handover'] extends false ? never : Lease<C>): string
  /** What `JSON.stringify` writes. It contains nothing that could resume or release the lease. */
  toJSON(): LeaseJson
}

/** A lease in a log. */
export interface LeaseJson {
  readonly name: string
  readonly owner: string
  readonly state: LeaseState
  /** In decimal: a JSON number would lose digits. */
  readonly fence: string
  readonly remainingMs: number
}
