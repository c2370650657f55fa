import type { Finding } from '@locks/core/adapter'

/**
 * All that the lock algorithm asks of a store: read a value with its version, and replace it if the
 * version is still the one that was read. A store of this kind is written in a few lines; prove it
 * with `versionedStoreContract` of `@locks/cas/contract`.
 *
 * Rules for every method:
 * - It MAY be called concurrently with any other.
 * - It MUST reject when the outcome is unknown or the store does not answer. A conflict is a fact.
 * - It MUST NOT put a password into an error, nor an object that carries one.
 * - It SHOULD settle on its own within a few seconds.
 *
 * A value is never dropped but by `prune`, or after the `idleMs` that it was put with.
 */
export interface VersionedStore {
  /** Who sees the same keys: tasks of one process, processes of one host, or everyone who reaches it. */
  readonly scope: 'process' | 'host' | 'cluster'
  /**
   * Versions become fencing tokens. `durable`: a version that a durable put returned is never returned
   * again for its key, whatever crashes. `clock-assisted`: also not after the key was lost as a
   * whole, as long as the store's clock did not go back, but not durable by itself. After the key fell back to
   * an older version, as in a failover, only if every version is at least that clock, and not just the first.
   */
  readonly fencing: 'durable' | 'clock-assisted'

  /**
   * The present value of `key` with its version; undefined when the key was never put. MUST show every
   * put that was acknowledged before the call, to whomever: no stale replica, no cache.
   */
  get(key: string): Promise<Versioned | undefined>

  /**
   * Replaces the value of `key` if its version is `expected`; creates it if `expected` is undefined and
   * there is none. MUST be atomic: of any number of concurrent puts with one `expected` at most one
   * succeeds, and a put with any other version than the present one changes nothing.
   *
   * The new version MUST be higher than every earlier one of that key. It MUST NOT start low again when
   * an operator deleted the key, or a client that slept through that meets its own old version: begin at
   * the clock's microseconds.
   *
   * The answer to a conflict tells what is there instead, so that no second call is needed. It MUST be
   * certain that this put did not act: where a client library may have sent it twice by itself and the
   * second one was refused, either `current.value` is the value that was put, or reject.
   *
   * `durable` asks for a version that survives a crash of the store, since it is handed out as a fence.
   *
   * With `idleMs` the store MAY drop the value by itself, if nobody puts another one for so long. Only where every
   * version is at least the store's clock: then it is below the next one of that key, which is that clock.
   */
  put(
    key: string,
    value: string,
    expected: bigint | undefined,
    durable: boolean,
    idleMs?: number,
  ): Promise<Put>

  /**
   * Calls `hint` soon after `key` changed, with what it is now if that is known for free. Only a hint:
   * it may be lost, late or repeated. Resolves once changes from now on are heard, with a function that
   * ends it; rejects when the store cannot tell just now. Leave it out when there is no such signal.
   */
  watch?(key: string, hint: (current?: Versioned) => void): Promise<() => void>

  /**
   * For processes that look once and end, and so never see a record stand still: notes that `current` was read just
   * now, and answers for how many ms at least it is known to have been there, by the notes of all of them. They MUST
   * count by one clock that never jumps ahead, so leave it out unless they run on one host.
   */
  seenForMs?(key: string, current: Versioned): Promise<number>

  /**
   * The store's clock for `key`, in ms, the same for all clients; it is used for `minHoldMs` alone, whose end a process
   * that looks for the first time has to know. Leave it out when there is none: `minHoldMs` is then refused.
   */
  now?(key: string): Promise<number>

  /**
   * Every value there is, with its version, in any order; one that comes, goes or changes meanwhile may be
   * missed or come twice. For operators: it MAY be slow. Leave it out when the store cannot tell.
   */
  values?(): AsyncIterable<Versioned>

  /**
   * Drops values that nobody put for `idleMs`, as far as the store can tell, and of which `isOver` says that nobody
   * needs them. Yields now and then, with how many it dropped since. MUST drop a value only if its version is still
   * the one that `isOver` was asked about, as a put replaces it. The next version of that key MUST be higher than
   * every one it had, so keep one number for all keys that were dropped. `background` asks to do nothing where
   * another client has just done it, or where values expire by `put`. With `keys` it MUST drop no other. Leave it out
   * when values cannot be dropped, and give the reason in `keeps`.
   */
  prune?(
    idleMs: number,
    isOver: (current: Versioned) => boolean,
    background: boolean,
    keys?: readonly string[],
  ): AsyncGenerator<number, void>

  /** Why values cannot be dropped, for people to read: "the store …". */
  readonly keeps?: string

  /** What the store's settings mean for locks, as the `diagnose` of an adapter. Changes nothing. */
  diagnose?(): Promise<readonly Finding[]>

  /** Ends what this store opened itself. */
  close(): Promise<void>
}

/** Opens the store of one client. What is known without connecting (scope, fencing) is there at once. */
export type StoreFactory = () => VersionedStore

export interface Versioned {
  readonly value: string
  readonly version: bigint
}

export type Put =
  | { readonly version: bigint }
  | { readonly conflict: true; readonly current: Versioned | undefined }
