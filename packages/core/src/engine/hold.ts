import type { AcquireRequest, Grant, Holder, RenewOutcome, Renewal } from '../adapter/spi.ts'
import { LockError, quote } from '../adapter/lock-error.ts'
import type { EventSubject } from './events.ts'
import type { Settings } from './settings.ts'
import { boundedCall } from './deadlines.ts'
import type { Alarm, AlarmTarget } from './deadlines.ts'
import type { Context } from './context.ts'
import { Term } from './term.ts'

export type LeaseState = 'held' | 'jeopardy' | 'lost' | 'released'

/** The queue that a hold keeps waiting. */
export interface HoldOwner {
  /** The hold ended. The next waiter may go on once `cleanup` settles. */
  holdEnded(hold: Hold, cleanup?: Promise<unknown>): void
}

/** The holds of all clients of this process that are neither released nor lost. */
export const liveHolds: Set<Hold> = new Set()

/** One hold of a name at the store, shared by the leases that re-entered it. */
export class Hold implements AlarmTarget {
  readonly grant: Grant
  readonly request: AcquireRequest
  readonly term: Term
  leases = 0
  readonly #context: Context
  readonly #queue: HoldOwner
  readonly #alarm: Alarm
  #state: LeaseState = 'held'
  #ended: LockError | undefined
  #controller: AbortController | undefined
  #holder: Holder | undefined

  constructor(
    context: Context,
    queue: HoldOwner,
    request: AcquireRequest,
    grant: Grant,
    grantedAt: number,
    settings: Settings,
  ) {
    this.#context = context
    this.#queue = queue
    this.request = request
    this.grant = grant
    this.term = new Term(grantedAt, grant.ttlMs, this.ttlOf(request.ttlMs), settings)
    this.#alarm = context.timers.alarm(this, 'unref')
    context.holds.set(grant.attemptId, this)
    this.keepFor(settings.minHoldMs)
    liveHolds.add(this)
    this.#arm()
  }

  get owner(): string {
    return this.request.owner
  }

  isOf(context: Context): boolean {
    return this.#context === context
  }

  /** Neither released nor lost so far. Does not look at the clock. */
  get live(): boolean {
    return this.#state === 'held' || this.#state === 'jeopardy'
  }

  /** Why it ended, if not by a release. */
  get ended(): LockError | undefined {
    return this.#ended
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      this.#abortSignal()
    }
    return this.#controller.signal
  }

  /** The state by the clock, now: no timer runs while a callback blocks the event loop. */
  check(): LeaseState {
    if (this.live && this.#context.clock.now() >= this.term.deadline) this.#expire()
    return this.#state
  }

  /** How long the sockets have not been read, and so its end may be unknown; 0 if that is too short to matter. */
  unreadMs(): number {
    return this.#context.meter?.unreadMs(this.term.confirmedAt) ?? 0
  }

  remainingMs(): number {
    this.check()
    return !this.live || this.unreadMs() > 0 ? 0 : Math.max(0, this.term.deadline - this.#context.clock.now())
  }

  holder(): Holder {
    const { metadata } = this.request
    return (this.#holder ??= { owner: this.owner, fence: this.grant.fence, metadata })
  }

  fire(now: number): void {
    const term = this.term
    if (now >= term.deadline) return this.#expire()
    if (!term.renewable(now)) {
      if (term.isRenewed) this.#doubt(new Error('maxHoldMs is over: the lease is no longer renewed'))
      return this.#armAt(term.deadline)
    }
    if (term.isAsking) this.#doubt(undefined)
    this.#context.renewals.add(this)
  }

  /** The ttl that a request for `ttlMs` gets: that of a session is fixed. */
  ttlOf(ttlMs: number): number {
    return this.#context.adapter.capabilities.kind === 'lease' ? ttlMs : this.grant.ttlMs
  }

  /** The renewal to send now. */
  renewal(sentAt: number, ttlMs: number = this.term.nextTtlMs(sentAt)): Renewal {
    this.#armAt(this.term.asked(sentAt))
    return this.#renewalOf(ttlMs)
  }

  answered(outcome: RenewOutcome, sentAt: number, ttlMs: number, failure: unknown): void {
    const term = this.term
    term.answered(sentAt)
    this.check()
    if (!this.live) return
    if (outcome === 'lost') return this.#lose('the store no longer knows this holder', { definite: true })
    if (outcome === 'renewed') term.extend(sentAt, ttlMs)
    // An old renewal that is answered late says nothing about one confirmed since.
    if (sentAt < term.confirmedAt) return
    if (outcome === 'unknown') {
      this.#doubt(failure)
      return this.#armAt(term.retryAt(this.#context.clock.now()))
    }
    term.confirm(sentAt, ttlMs)
    this.#state = 'held'
    this.#arm()
  }

  /** The adapter reported something on its own. */
  reported(state: 'ok' | 'jeopardy' | 'lost', cause?: Error): void {
    if (this.check() === 'lost' || !this.live) return
    if (state === 'lost') this.#lose('the store ended its session', { definite: true })
    else if (state === 'jeopardy') this.#doubt(cause)
    else this.#state = 'held'
  }

  /** A lease of this hold was just acquired with that `minHoldMs`. */
  keepFor(minHoldMs: number): void {
    if (minHoldMs > 0) this.term.keepFor(minHoldMs, this.#context.clock.now())
  }

  /** How long the name must stay held if it is released now. */
  minHoldMs(): number {
    return this.term.minHoldMs(this.#context.clock.now())
  }

  /** One call to the store that ends the hold. The rest of `minHoldMs` is computed for each try. */
  releaseAtStore(): Promise<'released' | 'not-held'> {
    const { adapter } = this.#context
    const keepMs = this.minHoldMs()
    return keepMs === 0 ? adapter.release(this.grant) : adapter.release(this.grant, keepMs)
  }

  /** Frees the name at the store. From this call on the hold counts as ended. */
  release(): Promise<void> {
    this.#finish('released')
    const freed = this.#free({ again: false })
    this.#queue.holdEnded(this, this.#context.inBackground(freed))
    return freed
  }

  /** Repeats a release that was not confirmed. */
  releaseAgain(): Promise<void> {
    this.#context.assertOpen()
    const freed = this.#free({ again: true })
    void this.#context.inBackground(freed)
    return freed
  }

  /** The lease continues in another process: ends it here, and leaves it at the store. */
  handOver(): void {
    const now = this.#context.clock.now()
    // A short claim that was not renewed yet: the successor was promised the full length.
    const stretch = this.term.renewable(now) && this.term.isShort
    const renewal = this.#renewalOf(this.term.nextTtlMs(now))
    this.#finish('released')
    this.#queue.holdEnded(this)
    if (!stretch) return
    const call = (): Promise<unknown> => this.#context.adapter.renew([renewal])
    void this.#context.inBackground(boundedCall(this.#context, this.grant.name, call, { retry: true }))
  }

  /** Ends the hold because the client closes. */
  async close(error: LockError): Promise<void> {
    this.check()
    if (!this.live) return
    this.#ended = error
    const released = this.release()
    this.#abortSignal()
    await released
  }

  async #free({ again }: { readonly again: boolean }): Promise<void> {
    const { name } = this.grant
    const call = (): Promise<'released' | 'not-held'> => this.releaseAtStore()
    let failure: unknown
    try {
      const { answer, tries } = await boundedCall(this.#context, name, call, { retry: true })
      // After a failed try, "not-held" may mean that the release was done and its reply lost.
      if (answer === 'released' || tries > 1 || again) return
      this.#ended = this.#lossError('the store no longer knew this holder at its release')
      this.#state = 'lost'
      this.#abortSignal()
      throw this.#ended
    } catch (error) {
      failure = error
      throw error
    } finally {
      if (!again) this.#emitRelease(failure)
    }
  }

  #renewalOf(ttlMs: number): Renewal {
    return { grant: this.grant, ttlMs, lockDelayMs: this.request.lockDelayMs }
  }

  #arm(): void {
    this.#armAt(this.term.dueAt, this.term.slackMs)
  }

  #armAt(at: number, slackMs = 0): void {
    if (this.live) this.#alarm.set(at, slackMs)
  }

  #doubt(cause: unknown): void {
    if (this.#state !== 'held') return
    this.#state = 'jeopardy'
    const { events } = this.#context
    if (!events.wanted('jeopardy')) return
    // Without `check`: a loss is reported after this.
    const remainingMs = Math.max(0, this.term.deadline - this.#context.clock.now())
    events.emit('jeopardy', { ...this.#about(), remainingMs, ...(cause === undefined ? {} : { cause }) })
  }

  #expire(): void {
    this.#lose('its deadline passed without a confirmed renewal', { definite: false })
  }

  #lose(why: string, { definite }: { readonly definite: boolean }): void {
    const error = this.#lossError(why)
    this.#ended = error
    this.#finish('lost')
    this.#queue.holdEnded(this)
    // The store may still hold the name for this client (a session does). With a lock-delay it has to.
    if (!definite && this.request.lockDelayMs === 0) {
      const call = (): Promise<unknown> => this.releaseAtStore()
      void this.#context.inBackground(boundedCall(this.#context, this.grant.name, call, { retry: false }))
    }
    // Listeners may close the client.
    this.#abortSignal()
    const { events } = this.#context
    if (events.wanted('lost')) events.emit('lost', { ...this.#about(), holdMs: this.#holdMs(), error })
  }

  #abortSignal(): void {
    if (this.#ended !== undefined) this.#context.events.outside(() => this.#controller?.abort(this.#ended))
  }

  #finish(state: 'lost' | 'released'): void {
    this.#state = state
    this.#alarm.cancel()
    this.#context.holds.delete(this.grant.attemptId)
    liveHolds.delete(this)
  }

  #emitRelease(failure: unknown): void {
    const { events } = this.#context
    if (!events.wanted('release')) return
    const error = failure === undefined ? {} : { error: failure }
    events.emit('release', { ...this.#about(), holdMs: this.#holdMs(), ...error })
  }

  #lossError(why: string): LockError {
    const { name, fence } = this.grant
    return new LockError('LOCK_LOST', `lock ${quote(name)} (fence ${fence}) was lost: ${why}`, { lock: name })
  }

  #about(): EventSubject & { fence: bigint } {
    return { ...this.#context.about(this.request), fence: this.grant.fence }
  }

  #holdMs(): number {
    return this.#context.clock.now() - this.term.since
  }
}
