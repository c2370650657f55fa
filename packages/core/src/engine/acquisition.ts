import type { AcquireRequest, Busy, Grant, Holder } from '../adapter/spi.ts'
import { heldError, storeError } from '../adapter/lock-error.ts'
import type { AcquireEnd } from './events.ts'
import type { Settings } from './settings.ts'
import { abortListeners } from './abort-listeners.ts'
import { Contention } from './contention.ts'
import type { Contender, Obstacle } from './contention.ts'
import type { Context } from './context.ts'
import { Hold } from './hold.ts'
import type { NameQueue, QueuedAcquire } from './name-queue.ts'
import { callingScope, selfDeadlock } from './re-entry.ts'
import type { Scope } from './re-entry.ts'
import type { Alarm, AlarmTarget } from './deadlines.ts'

/** Makes the leases that programs get. */
export interface LeaseFactory<L> {
  /** The lease of a new hold. */
  first(context: Context, hold: Hold, calledAt: number, attempts: number): L
  /** One more lease of a hold of the same owner. */
  join(context: Context, hold: Hold, calledAt: number, attempts: number): L
}

/** What an acquire answers to. */
export interface Caller<L> {
  readonly leases: LeaseFactory<L>
  readonly onBusy: 'null' | 'throw'
  readonly resolve: (lease: L | null) => void
  readonly reject: (error: unknown) => void
}

/**
 * One acquire, from the call to its lease, refusal or failure. It is answered as soon as the wait is over or aborted;
 * what is still under way at the store is then withdrawn in the background.
 */
export class Acquisition<L> implements AlarmTarget, Contender, QueuedAcquire {
  readonly calledAt: number
  readonly #context: Context
  readonly #queue: NameQueue
  readonly #settings: Settings
  readonly #caller: Caller<L>
  readonly #scope: Scope | undefined = callingScope()
  readonly #alarm: Alarm
  /** Made when it is first needed: most waiters stand in the queue of their client for most of the time. */
  #contention: Contention | undefined
  #pending = true
  #contended = false
  #onAbort: (() => void) | undefined

  constructor(context: Context, queue: NameQueue, settings: Settings, caller: Caller<L>) {
    this.#context = context
    this.#queue = queue
    this.#settings = settings
    this.#caller = caller
    this.calledAt = context.clock.now()
    this.#alarm = context.timers.alarm(this, 'ref')
  }

  /** By which it may join a hold that begins meanwhile. */
  get owner(): string | undefined {
    return this.#settings.reenters ? this.#settings.owner : undefined
  }

  get once(): boolean {
    return this.#settings.waitMs === 0
  }

  get busy(): Busy | undefined {
    return this.#contention?.busy
  }

  get failure(): unknown {
    return this.#contention?.outage.failure
  }

  get waitUntil(): number {
    return this.calledAt + this.#settings.waitMs
  }

  start(): void {
    const { signal } = this.#settings
    if (signal !== undefined) {
      this.#onAbort = () => this.end('aborted', signal.reason)
      abortListeners.add(signal, this.#onAbort)
    }
    // A try may be queued behind a silent store; the store owes its answer from now on.
    if (this.once) this.#atStore().outage.owed(this.calledAt)
    this.arm()
    this.#queue.enter(this)
  }

  contend(): void {
    void this.#atStore().run()
  }

  foundBusy(holder: Holder | undefined): void {
    if (!this.#contended) {
      this.#contended = true
      const { events } = this.#context
      if (events.wanted('contended')) {
        const about = this.#context.about(this.#atStore().request)
        events.emit('contended', holder === undefined ? about : { ...about, holder })
      }
    }
    if (this.once) this.refuse('busy', holder)
  }

  reenter(hold: Hold): void {
    if (!this.#settle()) return
    this.#withdraw()
    hold.keepFor(this.#settings.minHoldMs)
    const { leases, resolve } = this.#caller
    resolve(leases.join(this.#context, hold, this.calledAt, this.#attempts))
  }

  end(outcome: 'unavailable' | 'aborted', error: unknown): void {
    if (!this.#settle()) return
    this.#withdraw()
    this.#report({ outcome, error })
    this.#caller.reject(error)
  }

  obstacle(now: number): Obstacle {
    const outage = this.#contention?.outage.isOutage(now) === true
    return outage ? { failure: this.failure } : { holder: this.#contention?.busy?.holder }
  }

  storeBusy(busy: Busy, sentAt: number): void {
    this.#queue.storeBusy(this, busy.holder, sentAt)
    this.foundBusy(busy.holder)
  }

  storeFailed(): void {
    this.#queue.storeFailed(this)
  }

  granted(request: AcquireRequest, grant: Grant, grantedAt: number): void {
    const hold = new Hold(this.#context, this.#queue, request, grant, grantedAt, this.#settings)
    this.#settle()
    const { leases, resolve } = this.#caller
    const lease = leases.first(this.#context, hold, this.calledAt, this.#attempts)
    this.#queue.occupy(hold, this)
    resolve(lease)
  }

  refuse(outcome: 'busy' | 'timeout', holder: Holder | undefined): void {
    if (!this.#settle()) return
    this.#withdraw()
    this.#report(holder === undefined ? { outcome } : { outcome, holder })
    if (this.#caller.onBusy === 'null') return this.#caller.resolve(null)
    const { name } = this.#queue
    const waitedMs = this.once ? undefined : this.#context.clock.now() - this.calledAt
    const own = holder && selfDeadlock(this.#context, name, holder, this.#scope)
    this.#caller.reject(heldError(name, holder, waitedMs, own))
  }

  fail(failure: unknown): void {
    this.end('unavailable', storeError(this.#queue.name, failure, this.#context.clock.now() - this.calledAt))
  }

  arm(): void {
    if (!this.#pending) return
    const contention = this.#contention
    let at = this.once ? Infinity : this.waitUntil
    if (contention !== undefined) at = Math.min(at, contention.outage.endsAt, contention.resumeAt)
    if (at !== Infinity) this.#alarm.set(at)
  }

  fire(now: number): void {
    const contention = this.#contention
    if (contention !== undefined && now >= contention.resumeAt) return contention.wake()
    if (!this.once && now >= this.waitUntil) {
      // As it was at that time: a timer that runs late shows a pause of this process.
      const obstacle = this.#ownObstacle(this.waitUntil)
      if ('failure' in obstacle) return this.fail(obstacle.failure)
      return this.refuse('timeout', obstacle.holder)
    }
    if (contention !== undefined && now >= contention.outage.endsAt && !contention.outage.forgives(now))
      return this.fail(this.failure ?? this.#queue.failure)
    this.arm()
  }

  get #attempts(): number {
    return this.#contention?.attempts ?? 0
  }

  #atStore(): Contention {
    return (this.#contention ??= new Contention(this, this.#context, this.#queue.name, this.#settings))
  }

  #ownObstacle(now: number): Obstacle {
    const known = this.#attempts === 0 ? this.#queue.obstacle(now) : this.obstacle(now)
    // Report a holder only if this acquire saw one.
    return 'failure' in known || this.#contended ? known : { failure: undefined }
  }

  #settle(): boolean {
    if (!this.#pending) return false
    this.#pending = false
    this.#alarm.cancel()
    const { signal } = this.#settings
    if (signal !== undefined && this.#onAbort !== undefined) abortListeners.remove(signal, this.#onAbort)
    return true
  }

  #withdraw(): void {
    this.#queue.acquireEnded(this, this.#contention?.withdraw())
  }

  #report(end: AcquireEnd): void {
    if (!this.#context.events.wanted('acquire')) return
    const { request, attempts } = this.#atStore()
    this.#context.reportEnd({ request, calledAt: this.calledAt, attempts }, end)
  }
}
