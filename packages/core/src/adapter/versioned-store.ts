import type { Finding } from './spi.ts'

/**
 * All that the algorithm of `@locks/cas` asks of a store: read a value with its version, and replace it if the version
 * is still the one that was read. Such a store takes a few lines; test it with `versionedStoreContract` of
 * `@locks/core/conformance`.
 *
 * Rules for every method:
 * - It MAY be called concurrently with any other.
 * - It MUST reject when the outcome is unknown or the store does not answer. A conflict is a fact.
 * - It MUST NOT put a password into an error, nor an object that carries one.
 * - It SHOULD settle on its own within a few seconds.
 *
 * A value is only dropped by `prune`, or after the `idleMs` that it was put with.
 */
export interface VersionedStore {
  /** Who sees the same keys: tasks of one process, processes of one host, or every client that reaches it. */
  readonly scope: 'process' | 'host' | 'cluster'
  /**
   * Versions become fencing tokens. `durable`: a version that a durable put returned is never returned again for its
   * key, even after a crash. `clock-assisted`: not durable by itself, but versions also rise after the key was lost, as
   * long as the store's clock did not go back. After a key fell back to an older version, as in a failover, they rise
   * only if every version, not just the first, is at least that clock.
   */
  readonly fencing: 'durable' | 'clock-assisted'

  /**
   * The present value of `key` with its version; undefined if the key was never put. MUST show every put that was
   * acknowledged to any client before the call: no stale replica, no cache.
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
   * The answer to a conflict has what is there instead, which saves a second call. It MUST be certain that this put did
   * not act: if a client library may have sent it twice and the second one was refused, either `current.value` is the
   * value that was put, or reject.
   *
   * `durable` asks for a version that survives a crash of the store, since it is handed out as a fence.
   *
   * With `idleMs` the store MAY drop the value by itself if it is not replaced for so long. Only if the next version of
   * that key is certain to be higher: every version is at least the store's clock, or there is one number for all
   * dropped keys, as for `prune`.
   */
  put(
    key: string,
    value: string,
    expected: bigint | undefined,
    durable: boolean,
    idleMs?: number,
  ): Promise<Put>

  /**
   * Calls `hint` soon after `key` changed, with its new value if that costs nothing. A hint may be lost, late, repeated
   * or wrong: it decides nothing except when to look. Resolves once later changes are reported, with a function that
   * ends it; rejects if the store cannot report them now. Leave it out if there is no such signal.
   */
  watch?(key: string, hint: (current?: Versioned) => void): Promise<() => void>

  /**
   * For processes that look once and end, and so never see a record stand still: notes that `current` was read just
   * now, and returns for how many ms at least it has been there, by the notes of all of them. They MUST count by one
   * clock that never jumps ahead, so leave it out unless they run on one host.
   */
  seenForMs?(key: string, current: Versioned): Promise<number>

  /**
   * The store's clock for `key`, in ms, the same for all clients. Only `minHoldMs` uses it: a process that looks for
   * the first time has to know its end. Leave it out if there is none: `minHoldMs` is then refused.
   */
  now?(key: string): Promise<number>

  /**
   * Every value there is, with its version, in any order; one that comes, goes or changes meanwhile may be
   * missed or come twice. For operators: it MAY be slow. Leave it out if the store cannot list them.
   */
  values?(): AsyncIterable<Versioned>

  /**
   * Drops values that were not replaced for `idleMs`, as far as the store can know, and that `isOver` accepts. Yields
   * now and then, with how many it dropped since. MUST drop a value only if its version is still the one that `isOver`
   * was asked about, as a put does. The next version of that key MUST be higher than every one it had, so keep one
   * number for all dropped keys. With `background`, do nothing if another client has just done it, and look at some of
   * the keys only where others use the server too. With `keys` it MUST drop no other. Leave it out if values cannot be
   * dropped, and give the reason in `keeps`.
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
