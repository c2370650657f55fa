import type { Holder } from '../adapter/spi.ts'

/** What an event is about. */
export interface EventSubject {
  readonly lock: string
  readonly owner: string
  /** The `label` of the acquire, if it has one. */
  readonly label?: string
  /** The name of the store in the config, or the option `store` of the client. */
  readonly store?: string
  /** The adapter's package, such as `@locks/redis`, if the adapter gives it. */
  readonly adapter?: string
}

interface AboutHold extends EventSubject {
  readonly fence: bigint
}

/** How an acquire ended. */
export type AcquireEnd =
  /** With a lease. `reentered`: it joined a hold of the same owner. */
  | { readonly outcome: 'acquired'; readonly fence: bigint; readonly reentered: boolean }
  /**
   * The lock is held: found at once (`busy`, also where `tryAcquire` returns `null`), or after the wait (`timeout`).
   */
  | { readonly outcome: 'busy' | 'timeout'; readonly holder?: Holder }
  /**
   * `unavailable`: the store failed or did not answer. `aborted`: the signal was aborted or the client closed. `lost`:
   * the hold it should have joined or resumed is over.
   */
  | { readonly outcome: 'unavailable' | 'aborted' | 'lost'; readonly error: unknown }

/** The events of a client. The same objects go to the `node:diagnostics_channel` named `locks:` plus the event. */
export interface LockEvents {
  /**
   * An acquire, a try or a `resume` ended: once for each, except those rejected for their arguments. `waitMs` counts
   * from the call. `attempts` counts attempts at the store: 0 if it only queued behind others of this client.
   */
  acquire: EventSubject & { readonly waitMs: number; readonly attempts: number } & AcquireEnd
  /** The last lease of a hold was released. `error`: the store did not confirm it. */
  release: AboutHold & { readonly holdMs: number; readonly error?: unknown }
  /** A hold ended without a release; none of its leases is valid. */
  lost: AboutHold & { readonly holdMs: number; readonly error: unknown }
  /** A renewal is overdue. The lease is still valid for `remainingMs`. */
  jeopardy: AboutHold & { readonly remainingMs: number; readonly cause?: unknown }
  /** An acquire found the lock held, and waits or gives up. At most once per acquire. */
  contended: EventSubject & { readonly holder?: Holder }
}

export type LockEventName = keyof LockEvents
