import type { AcquireRequest, Busy, Grant, Holder } from '../adapter/spi.ts'
import { graceMs, Patience, safeTtlMs } from '../adapter/time.ts'
import { isFinal } from '../adapter/lock-error.ts'
import type { Settings } from './settings.ts'
import type { Context } from './context.ts'
import { backoffMs, boundedCall } from './deadlines.ts'
import { withdraw } from './withdraw.ts'

/** How much longer than asked an adapter may wait before core tries again without its answer. */
const WAIT_GRACE_MS = 1_000

/** Minimum time between two attempts: waits that end at once must not flood the store. */
const MIN_WAIT_MS = 10

/** The acquire that contends, as its contention sees it. */
export interface Contender {
  /** When `waitMs` is over. */
  readonly waitUntil: number
  /** Sets its alarm anew: `resumeAt` or the outage changed. */
  arm(): void
  /** The store answered "busy" to an attempt sent at `sentAt`. */
  storeBusy(busy: Busy, sentAt: number): void
  storeFailed(): void
  granted(request: AcquireRequest, grant: Grant, grantedAt: number): void
  refuse(outcome: 'busy', holder: Holder | undefined): void
  fail(failure: unknown): void
}

/** One acquire at the store: attempts, and waits between them, until there is an outcome. */
export class Contention {
  readonly outage: Outage
  attempts = 0
  /** The last answer of the store, if it was "busy". */
  busy: Busy | undefined
  /** When the pause between two attempts ends. */
  resumeAt: number = Infinity
  readonly #contender: Contender
  readonly #context: Context
  readonly #settings: Settings
  #request: AcquireRequest
  #over = false
  /** The adapter's answer that is awaited. */
  #underWay: Promise<unknown> | undefined
  /** When it was asked for, if it is the answer to an attempt. */
  #askedAt: number | undefined
  #resume: (() => void) | undefined
  #waiting: AbortController | undefined

  constructor(contender: Contender, context: Context, name: string, settings: Settings) {
    this.#contender = contender
    this.#context = context
    this.#settings = settings
    this.outage = new Outage(context.storeTimeoutMs)
    this.#request = context.request(name, settings)
  }

  get request(): AcquireRequest {
    return this.#request
  }

  /** Attempts and waits until there is an outcome. Never rejects. */
  async run(): Promise<void> {
    const { adapter, clock } = this.#context
    while (!this.#over) {
      const request = this.#request
      const sentAt = clock.now()
      this.attempts += 1
      this.outage.owed(sentAt)
      this.#contender.arm()
      try {
        this.#askedAt = sentAt
        const answer = await (this.#underWay = adapter.attempt(request))
        this.#underWay = this.#askedAt = undefined
        // A grant that comes after the end is withdrawn by `withdraw`.
        if (this.#over) return
        if ('fence' in answer) await this.#take(answer, sentAt)
        else await this.#afterBusy(answer, sentAt)
      } catch (error) {
        this.#underWay = this.#askedAt = undefined
        if (!this.#over) await this.#rideOut(error)
      }
    }
  }

  /** Ends the pause between two attempts. */
  wake(): void {
    this.resumeAt = Infinity
    this.#contender.arm()
    this.#resume?.()
  }

  /** Ends without a hold. The result settles when nothing is left at the store; undefined if nothing can be. */
  withdraw(): Promise<void> | undefined {
    this.#over = true
    this.#waiting?.abort()
    this.#resume?.()
    // A try that was refused and never meant to wait has left nothing at the store.
    const clean = this.attempts === 0 || (this.busy !== undefined && !this.#request.willWait)
    const [underWay, askedAt] = [this.#underWay, this.#askedAt]
    const attempt = underWay && askedAt !== undefined ? { answer: underWay, sentAt: askedAt } : undefined
    const left = clean ? undefined : withdraw(this.#context, this.#request, attempt)
    // `close` waits for this answer, so that a late grant is withdrawn before the adapter is closed.
    if (underWay !== undefined)
      void this.#context.inBackground(
        boundedCall(this.#context, this.#request.name, () => underWay, { retry: false }),
      )
    return left
  }

  async #afterBusy(busy: Busy, sentAt: number): Promise<void> {
    this.outage.answered()
    this.busy = busy
    this.#contender.storeBusy(busy, sentAt)
    if (this.#over) return
    if (this.#spent) return this.#contender.refuse('busy', busy.holder)
    const { adapter, clock } = this.#context
    const maxMs = Math.max(1, Math.min(this.#contender.waitUntil - clock.now(), busy.retryInMs ?? Infinity))
    if (adapter.wait === undefined)
      return this.#pause(Math.min(maxMs, backoffMs(this.attempts - 1, this.#settings, clock)))
    const request = this.#request
    const waiting = (this.#waiting = new AbortController())
    const startedAt = clock.now()
    const woken = (this.#underWay = adapter.wait(request, maxMs, waiting.signal))
    // Past that time the store owes an answer.
    this.outage.owedFrom(startedAt + maxMs)
    const pushed = await this.#until(startedAt + maxMs + WAIT_GRACE_MS, woken)
    this.#underWay = undefined
    if (pushed !== undefined) return this.#take(pushed, pushed.grantedAt)
    if (clock.now() < startedAt + maxMs) this.outage.settled()
    waiting.abort()
    const drop = (): void => {
      // After an attempt under way its request is withdrawn anyway.
      const asking = this.#askedAt !== undefined && this.#request === request
      const wanted = !this.#over || this.#context.holds.has(request.attemptId)
      if (!wanted && !asking) void withdraw(this.#context, request)
    }
    // A wait that fails this late may have been a grant that could not be read.
    woken.then((late) => late && drop(), drop)
    const earlyMs = startedAt + MIN_WAIT_MS - clock.now()
    if (!this.#over && earlyMs > 0) await this.#pause(earlyMs)
  }

  get #spent(): boolean {
    return this.#settings.waitMs === 0 || this.attempts >= this.#settings.attempts
  }

  /** Passes a grant on, unless it arrived too late to be of use. */
  async #take(grant: Grant, grantedAt: number): Promise<void> {
    if (this.#over) return withdraw(this.#context, this.#request)
    if (this.#context.clock.now() < grantedAt + safeTtlMs(grant.ttlMs)) {
      this.#over = true
      return this.#contender.granted(this.#request, grant, grantedAt)
    }
    // The next attempt gets a new id, since the withdrawal of this one may still be on its way.
    const late = this.#request
    this.#request = this.#context.request(late.name, this.#settings)
    await withdraw(this.#context, late)
    if (!this.#over) await this.#rideOut(new Error('the grant arrived after its lease had expired'))
  }

  /** Tries a failing store again for a while, under the same id, so that a lost reply costs nothing. */
  async #rideOut(error: unknown): Promise<void> {
    const now = this.#context.clock.now()
    const failures = this.outage.failed(error, now)
    this.#contender.storeFailed()
    const spent = this.attempts >= this.#settings.attempts
    if (isFinal(error) || spent || now >= this.outage.endsAt) return this.#contender.fail(error)
    await this.#pause(backoffMs(failures, this.#settings, this.#context.clock))
  }

  async #pause(delayMs: number): Promise<void> {
    await this.#until(this.#context.clock.now() + delayMs)
  }

  /** Until `at`, the end of this contention, or an outcome of `event`, whichever comes first. */
  #until<T>(at: number, event?: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      const resume = (): void => resolve(undefined)
      this.#resume = resume
      this.resumeAt = at
      this.#contender.arm()
      // An event that comes too late must not disturb a later pause.
      const current = (): void => {
        if (this.#resume === resume) this.resumeAt = Infinity
      }
      event?.finally(current).then(resolve, reject)
    })
  }
}

/** A silent store counts as an outage after this long, even if the name was known to be held. */
export const SILENCE_MS = 1_000

/** What stands in the way of a grant: a holder, or a store that fails or stays silent. */
export type Obstacle = { readonly holder: Holder | undefined } | { readonly failure: unknown }

/** How long the store has failed, or owed an answer to, one acquire. */
export class Outage {
  readonly #timeoutMs: number
  /** Since when the store has owed an answer. */
  #since: number | undefined
  #failure: unknown
  #failures = 0
  #patience: Patience | undefined

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /** What the store last failed with, if it has not answered since. */
  get failure(): unknown {
    return this.#failure
  }

  /** When to give up. */
  get endsAt(): number {
    return this.#since === undefined ? Infinity : this.#since + this.#timeoutMs
  }

  isOutage(now: number): boolean {
    return this.#failure !== undefined || (this.#since !== undefined && now - this.#since >= SILENCE_MS)
  }

  /** The store owes an answer from `now` on, if it does not already. */
  owed(now: number): void {
    this.#since ??= now
  }

  /** The store has time until `at` before its silence counts. */
  owedFrom(at: number): void {
    this.#since = at
  }

  /** Nothing is owed. */
  settled(): void {
    this.#since = undefined
  }

  answered(): void {
    this.#since = undefined
    this.#patience = undefined
    this.#failure = undefined
    this.#failures = 0
  }

  /** Returns how often the store has failed since its last answer. */
  failed(error: unknown, now: number): number {
    this.#failure = error
    // A wait that failed was not due until later.
    this.#since = Math.min(this.#since ?? now, now)
    return (this.#failures += 1)
  }

  /** Whether to go on after `endsAt`, because this process was paused and an answer may be waiting to be read. */
  forgives(now: number): boolean {
    this.#patience ??= new Patience()
    if (!this.#patience.forgives(this.endsAt, now)) return false
    this.#since = now - this.#timeoutMs + graceMs(this.#timeoutMs)
    return true
  }
}
