import { MAX_TIMER_MS, safeTtlMs } from '../adapter/time.ts'

/**
 * How long a hold is valid, when to renew it, and for how long. The deadline is on the local monotonic clock and moves
 * only by confirmed renewals, counted from before they were sent.
 */
export class Term {
  readonly since: number
  /** The length that renewals ask for. */
  ttlMs: number
  readonly #renew: boolean
  readonly #renewUntil: number
  #deadline: number
  /** When the last confirmed grant or renewal was sent, and the ttl it gave. */
  #confirmedAt: number
  #periodMs: number
  /** When the latest renewal was sent, if it is not answered yet. */
  #askedAt: number | undefined
  /** Granted with a short claim, which is renewed to its full length once, even after `maxHoldMs`. */
  #claimed: boolean
  /** Absent until a lease asks for `minHoldMs`. */
  #minHold: MinHold | undefined

  constructor(
    grantedAt: number,
    grantedMs: number,
    ttlMs: number,
    { renew, maxHoldMs }: { readonly renew: boolean; readonly maxHoldMs: number },
  ) {
    this.since = grantedAt
    this.ttlMs = ttlMs
    this.#renew = renew
    this.#renewUntil = grantedAt + maxHoldMs
    this.#deadline = grantedAt + safeTtlMs(grantedMs)
    this.#confirmedAt = grantedAt
    this.#periodMs = grantedMs
    this.#claimed = grantedMs < ttlMs
  }

  get deadline(): number {
    return this.#deadline
  }

  get confirmedAt(): number {
    return this.#confirmedAt
  }

  /** A renewal is not answered yet. */
  get isAsking(): boolean {
    return this.#askedAt !== undefined
  }

  /** Renewal was asked for, but `maxHoldMs` may have ended it. */
  get isRenewed(): boolean {
    return this.#renew
  }

  /** Granted or renewed for less than its full length. */
  get isShort(): boolean {
    return this.#periodMs < this.ttlMs
  }

  /** When the next renewal is due, or the deadline where none is. */
  get dueAt(): number {
    if (!this.#renew && !this.#claimed) return this.#deadline
    return Math.min(this.#confirmedAt + this.#periodMs / 3, this.#deadline)
  }

  /** How much earlier it may be renewed, to be sent together with others. */
  get slackMs(): number {
    return this.#renew || this.#claimed ? this.#periodMs / 30 : 0
  }

  renewable(now: number): boolean {
    return this.#claimed || this.#keptUp(now)
  }

  nextTtlMs(now: number): number {
    return this.#keptUp(now) ? this.ttlMs : Math.max(1, Math.floor(this.since + this.ttlMs - now))
  }

  /** A renewal is sent. Returns when to send the next one if it is not answered. */
  asked(sentAt: number): number {
    this.#askedAt = sentAt
    return Math.min(this.#deadline, sentAt + this.#periodMs / 3)
  }

  answered(sentAt: number): void {
    if (sentAt === this.#askedAt) this.#askedAt = undefined
  }

  /** The store confirmed `ttlMs` from `sentAt` on. It never shortens a hold, so an earlier, longer end stands. */
  extend(sentAt: number, ttlMs: number): void {
    this.#deadline = Math.max(this.#deadline, sentAt + safeTtlMs(ttlMs))
  }

  /** The renewal sent at `sentAt` is the latest that was confirmed. */
  confirm(sentAt: number, ttlMs: number): void {
    this.#claimed = false
    this.#confirmedAt = sentAt
    this.#periodMs = ttlMs
  }

  /** When to ask again after a renewal that failed. */
  retryAt(now: number): number {
    return Math.min(this.#deadline, now + Math.max(1, this.#periodMs / 12))
  }

  /** A lease of the hold was acquired at `now` with that `minHoldMs`. */
  keepFor(minHoldMs: number, now: number): void {
    this.#minHold ??= new MinHold(now)
    this.#minHold.add(minHoldMs, now)
  }

  /** How long the name must stay held if it is released `now`. */
  minHoldMs(now: number): number {
    return this.#minHold?.remainingMs(now) ?? 0
  }

  #keptUp(now: number): boolean {
    return this.#renew && now < this.#renewUntil
  }
}

/**
 * How long a name must stay held after its release because of `minHoldMs`. The store made the grant at some moment
 * between the request and its answer. Counting starts at the answer, and elapsed time is reduced by the possible
 * difference between the clocks of client and store, so that the hold is never too short.
 */
class MinHold {
  readonly #answeredAt: number
  #lengthMs = 0

  constructor(answeredAt: number) {
    this.#answeredAt = answeredAt
  }

  /** Another lease of the hold asks for `minHoldMs` from `now` on. The latest end counts. */
  add(minHoldMs: number, now: number): void {
    this.#lengthMs = Math.max(this.#lengthMs, now - this.#answeredAt + minHoldMs)
  }

  /** What remains, in whole milliseconds, rounded up. */
  remainingMs(now: number): number {
    const elapsedMs = Math.max(0, safeTtlMs(now - this.#answeredAt))
    return Math.min(MAX_TIMER_MS, Math.max(0, Math.ceil(this.#lengthMs - elapsedMs)))
  }
}
