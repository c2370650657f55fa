import type { Capabilities, Mode } from './capabilities.ts'
import type { Clock } from './time.ts'

/**
 * The contract between core and a store. Core decides what it means to hold a lock in a program; an adapter decides how
 * a store assigns a name to an owner. Everything a program sees (queueing, re-entry, retries, time-outs, renewal, loss,
 * events, errors) is part of core and written once.
 *
 * Rules for every method:
 * - It MAY be called concurrently with any other.
 * - It MUST reject when the outcome is unknown or the store does not answer, with a `LockError`
 *   coded `LOCK_UNAVAILABLE` or with any other error, which core wraps in one. It MUST NOT resolve with
 *   "busy", "lost" or "not-held" when it has no answer.
 * - Core tries such a call again for `storeTimeoutMs`. It SHOULD reject with a `LockError` coded
 *   `LOCK_INVALID_ARGUMENT` or `LOCK_UNSUPPORTED` where trying again cannot help: a wrong password, no permission, a
 *   missing table.
 * - Core checks every answer and each of its properties. An answer outside the shape and range given here is discarded
 *   as `LOCK_UNAVAILABLE`: the outcome counts as unknown, and a possible grant is withdrawn.
 * - It MUST NOT put a password into an error, nor an object that contains one.
 * - It SHOULD settle within a few seconds. Core can handle a call that never does.
 * - Core keeps the process alive while a caller waits for an outcome. An adapter's own sockets and
 *   timers SHOULD NOT: a server that hangs would keep a finished program from ending.
 * - Expiry is decided by the store's own time, never by a client's wall clock. Where the store has none,
 *   a contender may take a hold over when it has seen it unchanged for its whole length, on its own monotonic clock.
 *
 * What core promises in return:
 * - The steps of one attempt come in order. `attempt` and `adopt` of a request are called again only after an answer,
 *   and `withdraw` is never called while one of them is under way, unless that has been silent for `storeTimeoutMs`.
 *   In that case it is called once more when the answer comes.
 * - Only `attempt`, `renew`, `release` and `inspect` are required. Each other method documents what core does without
 *   it.
 */
export interface Adapter<C extends Capabilities = Capabilities> {
  /** The name of the package, such as `@locks/redis`, for events. */
  readonly name?: string

  readonly capabilities: C

  /**
   * Tries once to own `request.name`. Never waits for another holder.
   *
   * MUST be atomic: one winner among any number of concurrent attempts. MUST be idempotent per
   * `request.attemptId`: when that attempt already holds the name (its reply was lost), the answer is
   * a grant with the *same* fence and a *fresh* ttl. Every other grant MUST get a new fence, higher than any before
   * for this name. A lock-delay MUST NOT keep out the attempt whose own hold caused it: its grant was lost, or it would
   * not try again. When `request.willWait` is set, a busy answer is followed by `wait` or `withdraw`, so an adapter
   * with a queue MAY enqueue in the same step.
   */
  attempt(request: AcquireRequest): Promise<Grant | Busy>

  /**
   * The store's own way to wait, after a busy attempt of the same request. Leave it out when the
   * store has none: core then polls with back-off.
   *
   * Resolves with a grant where the store hands the name off directly; with `undefined` when it is
   * worth trying again, which is also correct after `maxMs` and when in doubt. A wake-up that may have
   * been missed MUST end the wait, or core must find the name free after `Busy.retryInMs`.
   * When `signal` aborts it SHOULD settle soon; core withdraws the request itself.
   */
  wait?(request: AcquireRequest, maxMs: number, signal: AbortSignal): Promise<PushedGrant | undefined>

  /**
   * Removes everything that `request` left: its queue entry and its hold, whether or not the attempt ever reached the
   * store. MUST be idempotent and MUST NOT touch any other attempt. Commands of an attempt that was answered or failed,
   * which the client library has yet to send, MUST NOT take effect afterwards.
   *
   * Leave it out when the store keeps no queue: core then calls `release` with the fence 0, for a grant that it has not
   * seen. With a queue (`wait` is `handoff`, or `fairness` is `fifo`) it is required.
   */
  withdraw?(request: AcquireRequest): Promise<void>

  /**
   * Gives each hold a fresh ttl, in as few round trips as the store allows. The outcomes are in the same
   * order. `lost` is definite: this attempt is no longer the holder. MUST NOT re-create a hold that expired, and MUST
   * NOT shorten one: an older renewal may arrive late, and so may a repeated `attempt` or `adopt`, to which the same
   * applies. `unknown`, or a rejection of the whole call, leaves the old deadline in place.
   */
  renew(renewals: readonly Renewal[]): Promise<readonly RenewOutcome[]>

  /**
   * Frees the name if and only if `grant.attemptId` still holds it: the attempt id decides, not the fence. `released`
   * means that this call ended the hold. `not-held` means that the attempt does not hold the name, which may be free or
   * held by another: core then reports the lease as lost, unless an earlier try of the same release had an unknown
   * outcome. `not-held` MUST be certain: where the client library may have sent the call twice, reject; core asks
   * again. While only the lock-delay of an expired hold blocks the name, a release MAY end the delay, with either
   * answer.
   *
   * With `keepMs`, a whole number above 0 that core sends only where `capabilities.minHold` is true, the call ends the
   * hold and the name stays held for `keepMs` more, counted by the store's clock from when it handles the call. Both
   * MUST happen in one atomic step and survive the end of the client's process. During that time every attempt is busy
   * and no waiter is granted the name; soon after it, the first waiter is. `inspect` shows the released hold with the
   * time that remains, and `break` ends it. The attempt itself is over at once: `renew` and `adopt` resolve with
   * `lost`, a repeated `attempt` is busy, `withdraw` changes nothing, and a repeated `release` changes nothing and MAY
   * resolve with either outcome.
   */
  release(grant: Grant, keepMs?: number): Promise<'released' | 'not-held'>

  /**
   * Present exactly when `capabilities.handover` is true. Atomically makes `request.attemptId` the
   * holder in place of `from.attemptId`, with the same fence and a fresh ttl, if and only if the
   * latter still holds the name under `from.fence`; idempotent per `request.attemptId`. So only one successor can
   * continue a lease, however many copies of its text exist.
   */
  adopt?(from: Handover, request: AcquireRequest): Promise<Grant | 'lost'>

  /** What the store knows about a name now. MUST NOT change anything. */
  inspect(name: string): Promise<LockState>

  /**
   * Present exactly when `capabilities.list` is true. The names that are held now, with what `inspect` returns for
   * each, at most `limit` of them, in any order. For operators: it MAY be slow, and MAY miss a hold that begins or ends
   * meanwhile. MUST NOT change anything.
   */
  list?(limit: number): Promise<readonly LockState[]>

  /**
   * Present exactly when `capabilities.break` is true. Ends the hold that `inspect` described as `holder`, and no
   * other: the fence identifies it, or the owner where it has none. The name goes to the next waiter, as after a
   * release, with a higher fence. From then on `renew` and `release` of the broken holder resolve with `lost` and
   * `not-held`. Resolves with `not-held` when that hold has already ended.
   */
  break?(name: string, holder: Holder): Promise<'broken' | 'not-held'>

  /**
   * What the settings of the store mean for locks, and what to do about them: eviction, persistence, replication,
   * pooling, session time-outs, permissions. MUST NOT change anything. Rejects only when the store cannot be reached; a
   * setting that cannot be read is a finding too. Leave it out when there is nothing to report.
   */
  diagnose?(): Promise<readonly Finding[]>

  /**
   * Drops what the store keeps about names that are free and were not granted for `idleMs`, in one bounded step; `more`
   * means that another call may find more. With `names` it MUST drop nothing of any other name. MUST NOT touch a name
   * that is held or waited for, nor block clients that use it meanwhile. The next fence of a dropped name MUST be
   * higher than all its earlier ones. Leave it out when the store keeps nothing about a free name.
   */
  prune?(idleMs: number, names?: readonly string[]): Promise<Pruned>

  /**
   * Closes connections that the adapter opened itself, after core has released and withdrawn everything. Leave it out
   * when there is nothing to close.
   */
  close?(): Promise<void>
}

/** An adapter belongs to one client: core calls the factory once per `createLocks`. */
export type AdapterFactory<C extends Capabilities = Capabilities> = (host: AdapterHost) => Adapter<C>

/** What core offers the adapter of one client. */
export interface AdapterHost {
  /** A UUID in lower case, also the first part of every attempt id of this client. */
  readonly clientId: string
  /** The clock for `grantedAt` of pushed grants and for timers. */
  readonly clock: Clock
  /**
   * Call it when the adapter learns about holds on its own. With an `attemptId` the report is about that hold (its
   * connection broke), without one about every hold of the client (its session).
   * `jeopardy`: the hold is in doubt. `ok`: no longer in doubt. `lost`: definitely lost.
   */
  readonly report: (state: 'ok' | 'jeopardy' | 'lost', attemptId?: string) => void
}

export interface AcquireRequest {
  readonly name: string
  /**
   * Identity of this attempt at the store: `<client uuid>:<number>`, a random number below 2^63. Every resend
   * reuses it. It is a secret, since it can release and hand over the hold: `inspect`, `list`, a busy answer and
   * errors MUST NOT show it. An id from outside (a message, a record) MUST be checked with `isAttemptId`.
   */
  readonly attemptId: string
  /**
   * The owner, for people to read. Not an identity: two attempts of one owner exclude each other. Without an explicit
   * owner it is `defaultOwner(attemptId)`, which a store may leave out and compute when it reads.
   */
  readonly owner: string
  readonly mode: Mode
  readonly ttlMs: number
  /** The store keeps the name blocked this long after the ttl, unless it is released. Usually 0. */
  readonly lockDelayMs: number
  /** Core will wait if this attempt finds the name busy. */
  readonly willWait: boolean
  readonly metadata: HolderMetadata
}

export interface Grant {
  readonly name: string
  readonly attemptId: string
  /** From 1 to 2^63-1. */
  readonly fence: bigint
  /**
   * How long the store promises the hold, from when it granted it. At most the requested ttl, and less where the store
   * hands off with a short claim; with a session, the session's.
   */
  readonly ttlMs: number
}

/** A grant that is not the reply to a request just sent. */
export interface PushedGrant extends Grant {
  /**
   * A lower bound, on the host's clock, of when the store made the grant. It MUST NOT be the time of
   * receipt: a paused process may read its grant long after it expired.
   */
  readonly grantedAt: number
}

export interface Busy {
  readonly busy: true
  readonly holder?: Holder
  /** Try again after this long at the latest, even without a wake-up. Absent when `wait` cannot miss one. */
  readonly retryInMs?: number
}

export interface Renewal {
  readonly grant: Grant
  readonly ttlMs: number
  readonly lockDelayMs: number
}

export type RenewOutcome = 'renewed' | 'lost' | 'unknown'

export interface Handover {
  readonly name: string
  readonly attemptId: string
  readonly fence: bigint
}

export interface HolderMetadata {
  readonly host: string
  readonly pid: number
  /** Free text from the program, to find the holder by. */
  readonly label?: string
}

export interface Holder {
  readonly owner: string
  /** Present wherever `capabilities.fencing` is not `none`. */
  readonly fence?: bigint
  readonly metadata?: HolderMetadata
  /** When the hold began, in ms since the epoch by the store's clock. For people, not for deadlines. */
  readonly since?: number
}

export interface LockState {
  readonly name: string
  readonly held: boolean
  readonly holder?: Holder
  /** How long until the store frees the name if it is not renewed. */
  readonly remainingMs?: number
  /** How many clients wait at the store, if it knows. */
  readonly waiters?: number
  /** The first 100 waiters in order, next first. Only from `inspect`, where the store knows them. */
  readonly waiting?: readonly Waiter[]
}

/** A client that waits at the store, for people to read. Tasks of one client wait as one. */
export interface Waiter {
  readonly owner: string
  readonly metadata?: HolderMetadata
  /** When the wait began, in ms since the epoch by the store's clock, if it knows. */
  readonly since?: number
}

/** What one step of `prune` did. */
export interface Pruned {
  /** How many names were dropped. */
  readonly pruned: number
  /** Whether another step may drop more. Every step makes progress, so this is `false` eventually. */
  readonly more: boolean
  /** Of the names that were asked for: how many stay because the store cannot drop them, and why. */
  readonly kept?: { readonly names: number; readonly why: string }
}

/** The result of one check of a store, for people to read. */
export interface Finding {
  /** Stable, in kebab-case: `eviction-policy`. */
  readonly check: string
  /** `warning`: locks may fail or be slow. `danger`: two clients may hold one lock, or a fence may decrease. */
  readonly level: 'ok' | 'warning' | 'danger'
  /** What was found, in one line, without secrets. */
  readonly message: string
  /** What to do about it. Present unless the level is `ok`. */
  readonly advice?: string
}
