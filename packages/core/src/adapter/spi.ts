import type { Capabilities, Mode } from './capabilities.ts'
import type { Clock } from './clock.ts'

/**
 * The contract between core and a store. Core decides what it means to hold a lock in a program;
 * an adapter decides how a store owns a name. Everything a program sees (queueing, re-entry,
 * retries, time-outs, renewal, loss, events, errors) is core's and is written once.
 *
 * Rules for every method:
 * - It MAY be called concurrently with any other.
 * - It MUST reject when the outcome is unknown or the store does not answer, with a `LockError`
 *   coded `LOCK_UNAVAILABLE` or with any other error, which core wraps as one. It MUST NOT answer
 *   "busy", "lost" or "not-held" for want of an answer.
 * - Core tries such a call again for `storeTimeoutMs`. It SHOULD reject with a `LockError` coded
 *   `LOCK_INVALID_ARGUMENT` or `LOCK_UNSUPPORTED` where trying again cannot help: a wrong password, no permission, a
 *   missing table.
 * - Core checks every answer, and every property of it. One that is not of the shape and range given here is discarded
 *   as `LOCK_UNAVAILABLE`: the outcome counts as unknown, and what may have been granted is withdrawn.
 * - It MUST NOT put a password into an error, nor an object that carries one.
 * - It SHOULD settle on its own within a few seconds. Core survives one that never does.
 * - Core keeps the process alive while somebody waits for an outcome. An adapter's own sockets and
 *   timers SHOULD NOT: a server that hangs would keep a finished program from ending.
 * - Expiry is decided by the store's own time, never by a client's wall clock. Where the store has none,
 *   each contender decides by what it saw stand still for the whole length, on its own monotonic clock.
 *
 * What core promises in return:
 * - The steps of one attempt come in order. `attempt` and `adopt` of a request are called again only after an answer,
 *   and `withdraw` is never called while one of them is under way, unless that has been silent for `storeTimeoutMs`.
 *   In that case it is called once more when the answer comes.
 * - `attempt`, `renew`, `release` and `inspect` make an adapter. Each of the other methods says what core does
 *   without it.
 */
export interface Adapter<C extends Capabilities = Capabilities> {
  /** Of the package, such as `@locks/redis`: events carry it. */
  readonly name?: string

  readonly capabilities: C

  /**
   * One try to own `request.name`. Never waits for another holder.
   *
   * MUST be atomic: one winner among any number of concurrent attempts. MUST be idempotent per
   * `request.attemptId`: when that attempt already holds the name (its reply was lost), the answer is
   * a grant with the *same* fence and a *fresh* ttl. MUST mint a new fence, higher than any before
   * for this name, for every other grant. When `request.willWait` is set, a busy answer is followed
   * by `wait` or `withdraw`, so an adapter with a queue MAY enqueue in this same step.
   */
  attempt(request: AcquireRequest): Promise<Grant | Busy>

  /**
   * The store's own way to wait, after a busy attempt of the same request. Leave it out when the
   * store has none: core then polls with back-off.
   *
   * Resolves with a grant where the store hands the name over directly; with `undefined` when it is
   * worth trying again, which is also right after `maxMs` and when in doubt. A wake-up that may have
   * been missed MUST end the wait, or core's next try must find the name by `Busy.retryInMs`.
   * When `signal` aborts it SHOULD settle soon; core withdraws the request itself.
   */
  wait?(request: AcquireRequest, maxMs: number, signal: AbortSignal): Promise<PushedGrant | undefined>

  /**
   * Leaves nothing of `request` behind: neither a place in a queue nor a hold, whether or not the
   * attempt ever reached the store. MUST be idempotent and MUST NOT touch any other attempt. What the client library
   * still has to send of an attempt that was answered or failed MUST NOT take effect after it.
   *
   * Leave it out when the store keeps no queue: core then calls `release` for a grant that it has not seen, with the
   * fence 0. With a queue (`wait` is `handoff`, or `fairness` is `fifo`) it MUST be there.
   */
  withdraw?(request: AcquireRequest): Promise<void>

  /**
   * Gives each hold a fresh ttl, in as few round trips as the store allows. Answers in the same
   * order. `lost` is definite: the store no longer knows this attempt as the holder. MUST NOT
   * re-create a hold that expired, and MUST NOT bring its end forward: an older renewal may arrive
   * late, and so may a repeated `attempt` or `adopt`, for which the same goes. `unknown`, or a rejection of the
   * whole call, leaves the old deadline standing.
   */
  renew(renewals: readonly Renewal[]): Promise<readonly RenewOutcome[]>

  /**
   * Frees the name if and only if `grant.attemptId` still holds it: the attempt id decides, not the fence. `released` means that this call ended the
   * hold. `not-held` means that the attempt does not hold the name, whether another does or nobody: core then
   * reports the lease as lost, unless an earlier try of the same release had an unknown outcome. `not-held` MUST
   * be certain: where the client library may have sent the call twice by itself, reject; core asks again.
   * While only the lock-delay of an expired hold blocks the name, a release MAY end the delay, with either answer.
   *
   * With `keepMs`, a whole number above 0 that core sends only where `capabilities.minHold` is true, the call ends the
   * hold and the name stays taken for `keepMs` more, counted by the store's clock from when it handles the call. Both
   * MUST happen in one atomic step and survive the end of the client's process. Until that time is over every attempt
   * is busy and no waiter is granted the name; soon after it, the first in line is. `inspect` shows the released hold
   * with the time that remains, and `break` ends it. The attempt itself is over at once: `renew` and `adopt` answer
   * `lost`, a repeated `attempt` is busy, `withdraw` changes nothing, and a repeated `release` changes nothing and MAY
   * give either answer.
   */
  release(grant: Grant, keepMs?: number): Promise<'released' | 'not-held'>

  /**
   * Present exactly when `capabilities.handover` is true. Atomically makes `request.attemptId` the
   * holder in place of `from.attemptId`, with the same fence and a fresh ttl, if and only if the
   * latter still holds the name under `from.fence`; idempotent per `request.attemptId`. A lease can so be continued
   * by one successor only, however many copies of its text exist.
   */
  adopt?(from: Handover, request: AcquireRequest): Promise<Grant | 'lost'>

  /** What the store knows about a name now. MUST NOT change anything. */
  inspect(name: string): Promise<LockState>

  /**
   * Present exactly when `capabilities.list` is true. The names that are held now, with what `inspect`
   * knows of each, at most `limit` of them, in any order. For operators: it MAY be slow, and MAY miss a
   * hold that begins or ends meanwhile. MUST NOT change anything.
   */
  list?(limit: number): Promise<readonly LockState[]>

  /**
   * Present exactly when `capabilities.break` is true. Ends the hold that `inspect` described as `holder`,
   * and no other: it is told by its fence, or by its owner where it has none. The name goes on as after
   * a release, to the next in line; the next fence is higher; the broken holder is answered `lost` and `not-held`
   * from then on. `not-held` when that hold is over already.
   */
  break?(name: string, holder: Holder): Promise<'broken' | 'not-held'>

  /**
   * What the store and its settings mean for locks, each with what to do about it: eviction, persistence,
   * replication, pooling, session time-outs, permissions. MUST NOT change anything. Rejects only when the store is
   * out of reach; a setting that cannot be read is a finding too. Leave it out when there is nothing to say.
   */
  diagnose?(): Promise<readonly Finding[]>

  /**
   * Drops what the store keeps of names that are free and were not granted for `idleMs`, in a bounded step: `more` says
   * that another call may find more. With `names` it MUST drop nothing of any other name. MUST NOT touch a name that is held or waited for, nor keep others from using it
   * meanwhile. The next fence of a name that was dropped MUST be higher than every one it ever had. Leave it out when
   * the store keeps nothing of a free name.
   */
  prune?(idleMs: number, names?: readonly string[]): Promise<Pruned>

  /**
   * Ends connections the adapter opened itself. Core has released and withdrawn everything before. Leave it out when
   * there is nothing to end.
   */
  close?(): Promise<void>
}

/** An adapter belongs to one client: core calls the factory once per `createLocks`. */
export type AdapterFactory<C extends Capabilities = Capabilities> = (host: AdapterHost) => Adapter<C>

/** What core offers the adapter of one client. */
export interface AdapterHost {
  /** A UUID in lower case, also the first part of every attempt id of this client. */
  readonly clientId: string
  /** The clock to date pushed grants by and to take timers from. */
  readonly clock: Clock
  /**
   * For what the adapter learns unasked. With an `attemptId` it speaks of that hold alone (its
   * connection broke), without one of every hold of the client (the session).
   * `jeopardy`: validity is in doubt. `ok`: not any more. `lost`: definitely gone.
   */
  readonly report: (state: 'ok' | 'jeopardy' | 'lost', attemptId?: string) => void
}

export interface AcquireRequest {
  readonly name: string
  /**
   * Identity of this attempt at the store: `<client uuid>:<number>`, a random number below 2^63. Every resend
   * reuses it. It is a secret, since it can release and hand over the hold: `inspect`, `list`, a busy answer and
   * errors MUST NOT show it. One that comes from outside (a message, a record) MUST be checked by `isAttemptId`.
   */
  readonly attemptId: string
  /**
   * Who asks, for people to read. Not an identity: two attempts of one owner exclude each other. Without an
   * explicit owner it is `defaultOwner(attemptId)`, which a store may leave out and compute when it reads.
   */
  readonly owner: string
  readonly mode: Mode
  readonly ttlMs: number
  /** The store keeps the name blocked this long beyond the ttl, unless it is released. Usually 0. */
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
   * How long the store promises from when it granted. At most what was asked for, and less where the store hands over
   * with a short claim; with a session, what the session gives.
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
  /** Try again after this long at the latest, whatever `wait` hears. Absent when `wait` cannot miss. */
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
  /** Free text of the user's, to find the holder by. */
  readonly label?: string
}

export interface Holder {
  readonly owner: string
  /** Present wherever `capabilities.fencing` is not `none`. */
  readonly fence?: bigint
  readonly metadata?: HolderMetadata
  /** Since when, in ms since the epoch by the store's clock. For people, not for deadlines. */
  readonly since?: number
}

export interface LockState {
  readonly name: string
  readonly held: boolean
  readonly holder?: Holder
  /** Until the store frees the name by itself, unless renewed. */
  readonly remainingMs?: number
  /** How many clients wait at the store, where it knows. */
  readonly waiters?: number
  /** Who they are, next in line first, the first 100 of them: from `inspect`, where the store knows. */
  readonly waiting?: readonly Waiter[]
}

/** One that waits at the store, for people to read. Tasks of one client wait as one. */
export interface Waiter {
  readonly owner: string
  readonly metadata?: HolderMetadata
  /** Since when, in ms since the epoch by the store's clock, where it knows. */
  readonly since?: number
}

/** What one step of `prune` did. */
export interface Pruned {
  /** How many names were dropped. */
  readonly pruned: number
  /** Whether another step may drop more. Every step makes progress, so that this is `false` in the end. */
  readonly more: boolean
  /** Of the names that were asked for: how many stay because the store cannot drop them, and why. */
  readonly kept?: { readonly names: number; readonly why: string }
}

/** One thing that was looked at in a store, for people to read. */
export interface Finding {
  /** Stable, in kebab-case: `eviction-policy`. */
  readonly check: string
  /** `warning`: locks may fail or be slow. `danger`: two may hold one lock, or a fence may fall back. */
  readonly level: 'ok' | 'warning' | 'danger'
  /** What was found, in one line, without secrets. */
  readonly message: string
  /** What to do about it. Present unless the level is `ok`. */
  readonly advice?: string
}
