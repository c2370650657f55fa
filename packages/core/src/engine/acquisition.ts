import { abortListeners } from './abort-listeners.ts'
import type { Alarm } from './timers.ts'
import { backoffMs } from './backoff.ts'
import type { Context } from './context.ts'
import { heldError, isFinal, storeError } from '../api/errors.ts'
import type { LockError } from '../api/errors.ts'
import type { AcquireEnd } from '../api/events.ts'
import { Hold } from './hold.ts'
import { LeaseHandle } from '../api/lease.ts'
import type { Settings } from '../api/options.ts'
import { reportEnd } from './report-end.ts'
import { callingScope } from './re-entry.ts'
import type { Scope } from './re-entry.ts'
import { selfDeadlock } from './self-deadlock.ts'
import type { NameQueue } from './name-queue.ts'
import type { AcquireRequest, Busy, Grant, Holder } from '../adapter/spi.ts'
import { graceMs, Patience } from '../adapter/patience.ts'
import { boundedCall } from './bounded-call.ts'
import { safeTtlMs } from '../adapter/safe-ttl.ts'

/** A silent store is called an outage after this long, although the name was known to be taken. */
export const SILENCE_MS = 1_000

/** How much longer than told an adapter may wait before core tries again without its answer. */
const WAIT_GRACE_MS = 1_000

/** At least this long between two tries: a wait that is over at once must not make a storm. */
const MIN_WAIT_MS = 10

/** What stands in the way of a grant: a holder, or a store that fails or stays silent. */
export type Obstacle = { readonly holder: Holder | undefined } | { readonly failure: unknown }

/**
 * One acquire, from the call to its lease, refusal or failure. The caller is answered at once when
 * the wait is over or aborted; what is under way at the store is then withdrawn behind its back.
 * It is long for a file: one state machine, each step of which may be the last and needs all of its state.
 */
export class Acquisition implements Alarm {
  at = 0
  slackMs = 0
  slot = -1
  readonly keepsAlive = true
  readonly calledAt: number
  readonly #context: Context
  readonly #queue: NameQueue
  readonly #settings: Settings
  readonly #resolve: (lease: LeaseHandle | null) => void
  readonly #reject: (error: unknown) => void
  readonly #onBusy: 'null' | 'throw'
  readonly #scope: Scope | undefined = callingScope()
  #request: AcquireRequest
  #pending = true
  #contended = false
  #attempts = 0
  #failures = 0
  #failure: unknown
  #busy: Busy | undefined
  /** Since when the store owes an answer. */
  #silentSince: number | undefined
  #patience: Patience | undefined
  /** The adapter's answer that is being waited for. */
  #underWay: Promise<unknown> | undefined
  /** When it was asked for, if it is that of an attempt. */
  #askedAt: number | undefined
  #resumeAt = Infinity
  #resume: (() => void) | undefined
  #waiting: AbortController | undefined
  #onAbort: (() => void) | undefined

  constructor(
    context: Context,
    queue: NameQueue,
    settings: Settings,
    onBusy: 'null' | 'throw',
    resolve: (lease: LeaseHandle | null) => void,
    reject: (error: unknown) => void,
  ) {
    this.#context = context
    this.#queue = queue
    this.#settings = settings
    this.#onBusy = onBusy
    this.#resolve = resolve
    this.#reject = reject
    this.calledAt = context.clock.now()
    this.#request = context.request(queue.name, settings)
  }

  /** The explicit owner, by which a waiter may join a hold that came up meanwhile. */
  get owner(): string | undefined {
    return this.#settings.owner
  }

  /** Tries without waiting. */
  get once(): boolean {
    return this.#settings.waitMs === 0
  }

  /** What the store answered when it was last asked, if that was "busy". */
  get busy(): Busy | undefined {
    return this.#busy
  }

  start(): void {
    const { signal } = this.#settings
    if (signal !== undefined) {
      this.#onAbort = () => this.abandon('aborted', signal.reason)
      abortListeners.add(signal, this.#onAbort)
    }
    // A try may stand in line behind a silent store; the store owes its answer from now on.
    if (this.once) this.#silentSince = this.calledAt
    this.#arm()
    this.#queue.enter(this)
  }

  /** Tries and waits at the store until there is an outcome. Never rejects. */
  async contend(): Promise<void> {
    const { adapter, clock } = this.#context
    while (this.#pending) {
      const request = this.#request
      const sentAt = clock.now()
      this.#attempts += 1
      this.#silentSince ??= sentAt
      this.#arm()
      try {
        this.#askedAt = sentAt
        const answer = await (this.#underWay = adapter.attempt(request))
        this.#underWay = this.#askedAt = undefined
        // After its end what was granted is withdrawn: see `#leave`.
        if (!this.#pending) return
        if ('fence' in answer) await this.#take(answer, sentAt)
        else await this.#afterBusy(answer, sentAt)
      } catch (error) {
        this.#underWay = this.#askedAt = undefined
        if (this.#pending) await this.#rideOut(error)
      }
    }
  }

  /** The name is taken, as somebody learnt. Tells so once, and is the end of a try that will not wait. */
  foundBusy(holder: Holder | undefined): void {
    if (!this.#contended) {
      this.#contended = true
      const { events } = this.#context
      if (events.wanted('contended')) {
        const about = this.#context.about(this.#request)
        events.emit('contended', holder === undefined ? about : { ...about, holder })
      }
    }
    if (this.once) this.#refuse('busy', holder)
  }

  /** Joins a hold of its owner. If it contends at the store itself, that is over. */
  reenter(hold: Hold): void {
    if (!this.#settle()) return
    this.#leave()
    hold.keepFor(this.#settings.minHoldMs)
    this.#resolve(LeaseHandle.join(this.#context, hold, this.calledAt, this.#attempts))
  }

  /** Ends without a lease, leaving nothing behind. */
  abandon(outcome: 'unavailable' | 'aborted', error: unknown): void {
    if (!this.#settle()) return
    this.#leave()
    this.#report({ outcome, error })
    this.#reject(error)
  }

  /** What the store failed it with last, unless that has answered since. */
  get failure(): unknown {
    return this.#failure
  }

  /** What this one waits for, and so do those in line behind it. */
  obstacle(now: number): Obstacle {
    const silentMs = this.#silentSince === undefined ? 0 : now - this.#silentSince
    const outage = this.#failure !== undefined || silentMs >= SILENCE_MS
    return outage ? { failure: this.#failure } : { holder: this.#busy?.holder }
  }

  fire(now: number): void {
    if (now >= this.#resumeAt) return this.#wake()
    if (!this.once && now >= this.#waitUntil) {
      // As it was then: a timer that runs late tells of a pause of this process.
      const obstacle = this.#obstacle(this.#waitUntil)
      if ('failure' in obstacle) return this.#fail(obstacle.failure)
      return this.#refuse('timeout', obstacle.holder)
    }
    if (now >= this.#outageAt) {
      this.#patience ??= new Patience()
      if (!this.#patience.forgives(this.#outageAt, now))
        return this.#fail(this.#failure ?? this.#queue.failure)
      const { storeTimeoutMs } = this.#context
      this.#silentSince = now - storeTimeoutMs + graceMs(storeTimeoutMs)
    }
    this.#arm()
  }

  #obstacle(now: number): Obstacle {
    const known = this.#attempts === 0 ? this.#queue.obstacle(now) : this.obstacle(now)
    // Only who has met a holder since the call may speak of one.
    return 'failure' in known || this.#contended ? known : { failure: undefined }
  }

  get #waitUntil(): number {
    return this.calledAt + this.#settings.waitMs
  }

  get #outageAt(): number {
    return this.#silentSince === undefined ? Infinity : this.#silentSince + this.#context.storeTimeoutMs
  }

  get #spent(): boolean {
    return this.once || this.#attempts >= this.#settings.attempts
  }

  async #afterBusy(busy: Busy, sentAt: number): Promise<void> {
    this.#heard()
    this.#busy = busy
    this.#queue.heardBusy(this, busy.holder, sentAt)
    this.foundBusy(busy.holder)
    if (!this.#pending) return
    if (this.#spent) return this.#refuse('busy', busy.holder)
    const { adapter, clock } = this.#context
    const maxMs = Math.max(1, Math.min(this.#waitUntil - clock.now(), busy.retryInMs ?? Infinity))
    if (adapter.wait === undefined)
      return this.#pause(Math.min(maxMs, backoffMs(this.#attempts - 1, this.#settings, clock)))
    const request = this.#request
    const waiting = (this.#waiting = new AbortController())
    const startedAt = clock.now()
    const woken = (this.#underWay = adapter.wait(request, maxMs, waiting.signal))
    // From then on a wait that goes on is a store that owes an answer.
    this.#silentSince = startedAt + maxMs
    const pushed = await this.#until(startedAt + maxMs + WAIT_GRACE_MS, woken)
    this.#underWay = undefined
    if (pushed !== undefined) return this.#take(pushed, pushed.grantedAt)
    if (clock.now() < startedAt + maxMs) this.#silentSince = undefined
    waiting.abort()
    const drop = (): void => {
      const wanted = this.#pending || this.#context.holds.has(request.attemptId)
      if (!wanted) void this.#context.undo(request)
    }
    // What failed so late may have been a grant that could not be read.
    woken.then((late) => late && drop(), drop)
    const earlyMs = startedAt + MIN_WAIT_MS - clock.now()
    if (this.#pending && earlyMs > 0) await this.#pause(earlyMs)
  }

  /** Makes a hold of a grant, unless it came too late to be worth anything. */
  async #take(grant: Grant, grantedAt: number): Promise<void> {
    if (!this.#pending) return this.#context.undo(this.#request)
    if (this.#context.clock.now() < grantedAt + safeTtlMs(grant.ttlMs)) {
      const hold = new Hold(this.#context, this.#queue, this.#request, grant, grantedAt, this.#settings)
      this.#settle()
      const lease = LeaseHandle.first(this.#context, hold, this.calledAt, this.#attempts)
      this.#queue.occupy(hold, this)
      return this.#resolve(lease)
    }
    // A withdrawal that is still on its way must not meet the next try, so that one gets an id of its own.
    const late = this.#request
    this.#request = this.#context.request(this.#queue.name, this.#settings)
    await this.#context.undo(late)
    if (this.#pending) await this.#rideOut(new Error('the grant arrived after its lease was over'))
  }

  /** A failing store is tried again for a while: with the same id, so that a lost reply costs nothing. */
  async #rideOut(error: unknown): Promise<void> {
    const now = this.#context.clock.now()
    this.#failure = error
    this.#failures += 1
    // A wait that failed was not to be over until later.
    this.#silentSince = Math.min(this.#silentSince ?? now, now)
    this.#queue.heardFailure(this)
    const spent = this.#attempts >= this.#settings.attempts
    if (isFinal(error) || spent || now >= this.#outageAt) return this.#fail(error)
    await this.#pause(backoffMs(this.#failures, this.#settings, this.#context.clock))
  }

  #refuse(outcome: 'busy' | 'timeout', holder: Holder | undefined): void {
    if (!this.#settle()) return
    this.#leave()
    this.#report(holder === undefined ? { outcome } : { outcome, holder })
    if (this.#onBusy === 'null') this.#resolve(null)
    else this.#reject(this.#held(holder))
  }

  #heard(): void {
    this.#silentSince = undefined
    this.#patience = undefined
    this.#failure = undefined
    this.#failures = 0
  }

  async #pause(delayMs: number): Promise<void> {
    await this.#until(this.#context.clock.now() + delayMs)
  }

  /** Until `at`, the end of this acquisition, or an outcome of `event`, whichever comes first. */
  #until<T>(at: number, event?: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      const resume = (): void => resolve(undefined)
      this.#resume = resume
      this.#resumeAt = at
      this.#arm()
      // An event that comes too late must not disturb whatever is waited for by then.
      const current = (): void => {
        if (this.#resume === resume) this.#resumeAt = Infinity
      }
      event?.finally(current).then(resolve, reject)
    })
  }

  #wake(): void {
    this.#resumeAt = Infinity
    this.#arm()
    this.#resume?.()
  }

  #arm(): void {
    if (!this.#pending) return
    const until = this.once ? Infinity : this.#waitUntil
    const at = Math.min(until, this.#outageAt, this.#resumeAt)
    if (at !== Infinity) this.#context.timers.set(this, at)
  }

  #settle(): boolean {
    if (!this.#pending) return false
    this.#pending = false
    this.#context.timers.cancel(this)
    const { signal } = this.#settings
    if (signal !== undefined && this.#onAbort !== undefined) abortListeners.remove(signal, this.#onAbort)
    return true
  }

  #leave(): void {
    this.#waiting?.abort()
    this.#resume?.()
    const { willWait } = this.#request
    // A try that was refused and never meant to wait has left nothing at the store.
    const clean = this.#attempts === 0 || (this.#busy !== undefined && !willWait)
    const [underWay, askedAt] = [this.#underWay, this.#askedAt]
    const attempt = underWay && askedAt !== undefined ? { answer: underWay, sentAt: askedAt } : undefined
    this.#queue.leave(this, clean ? undefined : this.#context.undo(this.#request, attempt))
    // `close` gives the answer a chance to come, so that a late grant is withdrawn before the adapter is closed.
    if (underWay !== undefined)
      void this.#context.inBackground(
        boundedCall(this.#context, this.#queue.name, () => underWay, { retry: false }),
      )
  }

  #held(holder: Holder | undefined): LockError {
    const waitedMs = this.once ? undefined : this.#context.clock.now() - this.calledAt
    const own = holder && selfDeadlock(this.#context, this.#queue.name, holder, this.#scope)
    return heldError(this.#queue.name, holder, waitedMs, own)
  }

  #fail(failure: unknown): void {
    this.abandon('unavailable', storeError(this.#queue.name, failure))
  }

  #report(end: AcquireEnd): void {
    const { calledAt } = this
    reportEnd(this.#context, { request: this.#request, calledAt, attempts: this.#attempts }, end)
  }
}
