import type { Alarm } from './timers.ts'
import type { Context } from './context.ts'
import { LockError, quote } from '../api/errors.ts'
import type { EventSubject } from '../api/events.ts'
import { withJson } from '../api/json.ts'
import { STALL_MS } from './loop-meter.ts'
import { LateRelease } from './late-release.ts'
import { MinHold } from './min-hold.ts'
import type { Settings } from '../api/options.ts'
import { outsideScopes } from './re-entry.ts'
import type { NameQueue } from './name-queue.ts'
import type { AcquireRequest, Grant, Holder, RenewOutcome, Renewal } from '../adapter/spi.ts'
import { boundedCall } from './bounded-call.ts'
import { safeTtlMs } from '../adapter/safe-ttl.ts'

export type LeaseState = 'held' | 'jeopardy' | 'lost' | 'released'

/** Those of every client of this process that are neither released nor lost. */
export const liveHolds: Set<Hold> = new Set()

/**
 * One hold of a name at the store, shared by the leases that re-entered it. Its deadline is on the
 * local monotonic clock and moves only by confirmed renewals, counted from before they were sent.
 * It is long for a file, as `Acquisition` is, and for the same reason.
 */
export class Hold implements Alarm {
  at = 0
  slackMs = 0
  slot = -1
  readonly keepsAlive = false
  readonly grant: Grant
  readonly owner: string
  readonly since: number
  ttlMs: number
  leases = 0
  readonly #context: Context
  readonly #queue: NameQueue
  readonly #request: AcquireRequest
  readonly #renew: boolean
  readonly #renewUntil: number
  /** Handed off with a short claim, which is stretched to the lease's length once, even after `maxHoldMs`. */
  #claimed: boolean
  #state: LeaseState = 'held'
  #deadline: number
  /** The last confirmed grant or renewal: when it was sent, and the ttl it gave. */
  #confirmedAt: number
  #periodMs: number
  /** When the renewal was sent that is not answered yet, the last of them. */
  #askedAt: number | undefined
  #ended: LockError | undefined
  #controller: AbortController | undefined
  /** Absent as long as no lease asks for `minHoldMs`. */
  #minHold: MinHold | undefined
  #holder: Holder | undefined

  constructor(
    context: Context,
    queue: NameQueue,
    request: AcquireRequest,
    grant: Grant,
    grantedAt: number,
    settings: Settings,
  ) {
    this.#context = context
    this.#queue = queue
    this.#request = request
    this.grant = grant
    this.owner = request.owner
    this.ttlMs = this.ttlOf(request.ttlMs)
    this.since = grantedAt
    this.#renew = settings.renew
    this.#claimed = grant.ttlMs < this.ttlMs
    this.#renewUntil = grantedAt + settings.maxHoldMs
    this.#confirmedAt = grantedAt
    this.#periodMs = grant.ttlMs
    this.#deadline = grantedAt + safeTtlMs(grant.ttlMs)
    context.holds.set(grant.attemptId, this)
    this.keepFor(settings.minHoldMs)
    liveHolds.add(this)
    this.#arm()
  }

  isOf(context: Context): boolean {
    return this.#context === context
  }

  /** Whether it may still be renewed and released; says nothing about the clock. */
  get live(): boolean {
    return this.#state === 'held' || this.#state === 'jeopardy'
  }

  get request(): AcquireRequest {
    return this.#request
  }

  /** Why it ended other than by a release. */
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

  /** The state by the clock, now: a callback that blocks the event loop outruns every timer. */
  check(): LeaseState {
    if (this.live && this.#context.clock.now() >= this.#deadline) this.#expire()
    return this.#state
  }

  /** For how long nothing has been read that may tell of its end; 0 when that is too short to matter. */
  unreadMs(): number {
    const { meter, clock } = this.#context
    if (meter === undefined) return 0
    const unreadMs = clock.now() - Math.max(meter.readAt, this.#confirmedAt)
    return unreadMs > STALL_MS ? unreadMs : 0
  }

  remainingMs(): number {
    this.check()
    return !this.live || this.unreadMs() > 0 ? 0 : Math.max(0, this.#deadline - this.#context.clock.now())
  }

  holder(): Holder {
    const { metadata } = this.#request
    return (this.#holder ??= withJson({ owner: this.owner, fence: this.grant.fence, metadata }))
  }

  fire(now: number): void {
    if (now >= this.#deadline) return this.#expire()
    if (!this.#renewable(now)) {
      if (this.#renew) this.#doubt(new Error('maxHoldMs is over: the lease is not renewed any more'))
      return this.#armAt(this.#deadline)
    }
    if (this.#askedAt !== undefined) this.#doubt(undefined)
    this.#context.renewals.add(this)
  }

  /** What asking for `ttlMs` brings: a session lasts as long as it lasts, whatever is asked for. */
  ttlOf(ttlMs: number): number {
    return this.#context.adapter.capabilities.kind === 'lease' ? ttlMs : this.grant.ttlMs
  }

  /** The renewal to send now. */
  renewal(sentAt: number, ttlMs: number = this.#nextTtlMs(sentAt)): Renewal {
    this.#askedAt = sentAt
    this.#armAt(Math.min(this.#deadline, sentAt + this.#periodMs / 3))
    return this.#renewalOf(ttlMs)
  }

  answered(outcome: RenewOutcome, sentAt: number, ttlMs: number, failure: unknown): void {
    if (sentAt === this.#askedAt) this.#askedAt = undefined
    this.check()
    if (!this.live) return
    if (outcome === 'lost') return this.#lose('the store no longer knows this holder', { definite: true })
    // The store never brings an end forward, so an earlier, longer one still stands.
    if (outcome === 'renewed') this.#deadline = Math.max(this.#deadline, sentAt + safeTtlMs(ttlMs))
    // Otherwise an older try that is answered late says nothing about a renewal confirmed since.
    if (sentAt < this.#confirmedAt) return
    if (outcome === 'unknown') {
      this.#doubt(failure)
      const again = this.#context.clock.now() + Math.max(1, this.#periodMs / 12)
      return this.#armAt(Math.min(this.#deadline, again))
    }
    this.#claimed = false
    this.#confirmedAt = sentAt
    this.#periodMs = ttlMs
    this.#state = 'held'
    this.#arm()
  }

  /** The adapter learnt something unasked. */
  reported(state: 'ok' | 'jeopardy' | 'lost', cause?: Error): void {
    if (this.check() === 'lost' || !this.live) return
    if (state === 'lost') this.#lose('the store ended its session', { definite: true })
    else if (state === 'jeopardy') this.#doubt(cause)
    else this.#state = 'held'
  }

  /** A lease of this hold was acquired just now, with that `minHoldMs`. */
  keepFor(minHoldMs: number): void {
    if (minHoldMs === 0) return
    const now = this.#context.clock.now()
    this.#minHold ??= new MinHold(now)
    this.#minHold.add(minHoldMs, now)
  }

  /** For how long the name has to stay taken if it is released now. */
  minHoldMs(): number {
    return this.#minHold === undefined ? 0 : this.#minHold.remainingMs(this.#context.clock.now())
  }

  /** One call to the store that ends the hold. What remains of `minHoldMs` is computed anew for every try. */
  releaseAtStore(): Promise<'released' | 'not-held'> {
    const { adapter } = this.#context
    const keepMs = this.minHoldMs()
    return keepMs === 0 ? adapter.release(this.grant) : adapter.release(this.grant, keepMs)
  }

  /** Frees the name at the store. From this call on, nobody may believe in the hold. */
  release(): Promise<void> {
    this.#finish('released')
    const freed = this.#free({ again: false })
    this.#queue.vacate(this, this.#context.inBackground(freed))
    return freed
  }

  /** Tries once more what an earlier release did not get confirmed. */
  releaseAgain(): Promise<void> {
    this.#context.assertOpen()
    const freed = this.#free({ again: true })
    void this.#context.inBackground(freed)
    return freed
  }

  /** Goes on with a release that was not confirmed, in the background. */
  releaseLater(): void {
    new LateRelease(this.#context, this, this.#deadline).start()
  }

  /** The lease goes on in another process: forget it here, leave it at the store. */
  handOver(): void {
    const now = this.#context.clock.now()
    // Of a short claim that no renewal has stretched yet; whoever resumes it was promised the whole.
    const stretch = this.#renewable(now) && this.#periodMs < this.ttlMs
    const renewal = this.#renewalOf(this.#nextTtlMs(now))
    this.#finish('released')
    this.#queue.vacate(this)
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
      // After a failed try, "not held" is what an executed release with a lost reply looks like.
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
    return { grant: this.grant, ttlMs, lockDelayMs: this.#request.lockDelayMs }
  }

  #nextTtlMs(now: number): number {
    return this.#keptUp(now) ? this.ttlMs : Math.max(1, Math.floor(this.since + this.ttlMs - now))
  }

  #renewable(now: number): boolean {
    return this.#claimed || this.#keptUp(now)
  }

  #keptUp(now: number): boolean {
    return this.#renew && now < this.#renewUntil
  }

  #arm(): void {
    if (!this.#renew && !this.#claimed) return this.#armAt(this.#deadline)
    // A little early is fine if it then goes with others.
    this.#armAt(Math.min(this.#confirmedAt + this.#periodMs / 3, this.#deadline), this.#periodMs / 30)
  }

  #armAt(at: number, slackMs = 0): void {
    if (!this.live) return
    this.slackMs = slackMs
    this.#context.timers.set(this, at)
  }

  #doubt(cause: unknown): void {
    if (this.#state !== 'held') return
    this.#state = 'jeopardy'
    const { events } = this.#context
    if (!events.wanted('jeopardy')) return
    // Not by `check`: whether it is over by now is told as a loss, after this.
    const remainingMs = Math.max(0, this.#deadline - this.#context.clock.now())
    events.emit('jeopardy', { ...this.#about(), remainingMs, ...(cause === undefined ? {} : { cause }) })
  }

  #expire(): void {
    this.#lose('its deadline passed without a confirmed renewal', { definite: false })
  }

  #lose(why: string, { definite }: { readonly definite: boolean }): void {
    const error = this.#lossError(why)
    this.#ended = error
    this.#finish('lost')
    this.#queue.vacate(this)
    // The store may still hold the name for us (a session does); a lock-delay wants just that.
    if (!definite && this.#request.lockDelayMs === 0) {
      const call = (): Promise<unknown> => this.releaseAtStore()
      void this.#context.inBackground(boundedCall(this.#context, this.grant.name, call, { retry: false }))
    }
    // Whoever is told may close the client.
    this.#abortSignal()
    const { events } = this.#context
    if (events.wanted('lost')) events.emit('lost', { ...this.#about(), holdMs: this.#holdMs(), error })
  }

  #abortSignal(): void {
    if (this.#ended !== undefined) outsideScopes(() => this.#controller?.abort(this.#ended))
  }

  #finish(state: 'lost' | 'released'): void {
    this.#state = state
    this.#context.timers.cancel(this)
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
    return { ...this.#context.about(this.#request), fence: this.grant.fence }
  }

  #holdMs(): number {
    return this.#context.clock.now() - this.since
  }
}
