import type { AcquireRequest, Busy, Clock, Grant, PushedGrant } from '@locks/core/adapter'
import type { Faults } from './faults.ts'
import type { Line } from './line.ts'
import type { Lines } from './lines.ts'
import type { SessionDriver } from './session-driver.ts'

/** How long an acquire that may wait does so for a free connection. */
const CONNECTION_WAIT_MS = 4_000
/** How often a waiting statement is cancelled again: between two statements there is nothing to cancel. */
const CANCEL_AGAIN_MS = 50
const CANCELS = 40
/** A name that is locked without a holder soon has one, or is free: tried ever more slowly, for two seconds in all. */
const UNDECIDED_MS = 5
const TRIES = 28

export interface SessionDeps<L extends Line> {
  readonly driver: SessionDriver<L>
  readonly lines: Lines<L>
  readonly clock: Clock
  readonly faults: Faults
  /** The longest silence of a holder, whatever its ttl. */
  readonly sessionTtlMs: number
  /** The connection of a hold ended by itself. */
  readonly lost: (session: Session<L>) => void
}

/** One attempt's connection: it tries, waits, holds, and is over. */
export class Session<L extends Line> {
  readonly request: AcquireRequest
  readonly ttlMs: number
  readonly key: string
  readonly #deps: SessionDeps<L>
  #line: L | undefined
  #withdrawn = false
  #ending: Promise<boolean> | undefined
  /** Until when the server was last told to bear silence: later probes must not bring that forward. */
  #silentUntil = 0
  grant: Grant | undefined
  /** The try that is under way. */
  trying: Promise<Grant | Busy> | undefined
  /** The wait that is under way at the server, across calls. */
  landing: Promise<PushedGrant | undefined> | undefined

  constructor(request: AcquireRequest, deps: SessionDeps<L>) {
    this.request = request
    this.ttlMs = Math.min(request.ttlMs, deps.sessionTtlMs)
    this.key = deps.driver.newKey()
    this.#deps = deps
  }

  get over(): boolean {
    return this.#withdrawn || this.#line === undefined || this.#line.ended
  }

  tryLock(): Promise<Grant | Busy> {
    return (this.trying ??= this.#tryLock().finally(() => (this.trying = undefined)))
  }

  /** Proves that the connection lives, and gives it another `ttlMs` of silence. */
  async probe(ttlMs: number): Promise<void> {
    const { driver, sessionTtlMs, faults } = this.#deps
    if (this.#line === undefined) throw faults.unavailable('the connection of this hold is gone')
    await driver.probe(this.#line, this.#allow(Math.min(ttlMs, sessionTtlMs)))
  }

  /** Whether the server still knows the waiting connection. */
  async isThere(): Promise<boolean> {
    return this.#line !== undefined && this.#deps.driver.isThere(this.#line)
  }

  /**
   * Ends the hold or wait, whatever it is at: the name is free when this resolves, with whether it was held by this
   * until then.
   */
  end(): Promise<boolean> {
    this.#withdrawn = true
    return (this.#ending ??= this.#end())
  }

  /** For a connection that may be beyond talking to. */
  abandon(): void {
    this.#withdrawn = true
    const line = this.#line
    this.#line = undefined
    if (line !== undefined) this.#deps.lines.discard(line)
  }

  /** After a try that failed: whoever withdraws sees to the rest by itself. */
  giveUp(): void {
    if (!this.#withdrawn) this.abandon()
  }

  async #tryLock(): Promise<Grant | Busy> {
    const { driver, faults } = this.#deps
    for (let tries = 1; ; tries += 1) {
      const line = await this.#take()
      const tried = await this.#soon(line, () => driver.tryLock(line, this, this.#allow(this.ttlMs)))
      if (tried === 'locked') return this.#hold(line, await this.#on(line, () => this.#mint(line)))
      if (tried === 'missing') {
        if (tries >= TRIES) throw faults.unavailable('what a lock is kept in was deleted again and again')
        await this.#soon(line, () => driver.make(line, this))
        await this.#leave(line)
      } else if (this.request.willWait || tried.holder !== undefined) {
        // In line at the server before anybody is told of it, so that those who come later stand behind.
        if (this.request.willWait) await this.#soon(line, () => this.#queue(line))
        else await this.#leave(line)
        // A wait cannot be missed, but its answer can be lost on the way.
        return { busy: true, retryInMs: this.ttlMs, ...(tried.holder && { holder: tried.holder }) }
      } else {
        // Locked by nobody who holds it: by one about to, by a wait that was given up as it was granted, by a clean-up.
        await this.#leave(line)
        if (tries >= TRIES) throw faults.unavailable('it is locked by somebody who does not hold the lock')
        await this.#pause(UNDECIDED_MS * tries)
      }
    }
  }

  /** Starts the statement that waits, for as long as it takes. */
  async #queue(line: L): Promise<void> {
    const { queued, locked } = this.#deps.driver.queue(line, this)
    this.landing = this.#on(line, () => this.#land(line, locked))
    this.landing.catch(() => undefined)
    await queued
  }

  async #land(line: L, locked: Promise<boolean>): Promise<PushedGrant | undefined> {
    const got = await locked
    if (this.#withdrawn) return undefined
    if (!got) {
      await this.#leave(line)
      return undefined
    }
    // The server granted it some time ago. What counts is a proof of life that was asked for since.
    const grantedAt = this.#deps.clock.now()
    const [fence] = await Promise.all([this.#mint(line), this.probe(this.ttlMs)])
    return { ...this.#hold(line, fence), grantedAt }
  }

  async #take(): Promise<L> {
    const { lines, faults } = this.#deps
    const line = this.#withdrawn
      ? undefined
      : await lines.take(this.request.willWait ? CONNECTION_WAIT_MS : 0)
    if (line !== undefined && !this.#withdrawn) return (this.#line = line)
    if (line !== undefined) lines.give(line)
    throw faults.unavailable('the request was withdrawn')
  }

  /** A connection that failed is not used again: nobody knows what it holds. */
  async #on<T>(line: L, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (this.#line === line && !this.#withdrawn) this.abandon()
      throw error
    }
  }

  /** For what must not take long: a connection that stays silent is ended, which fails the work. */
  async #soon<T>(line: L, work: () => Promise<T>): Promise<T> {
    line.busySince = this.#deps.clock.now()
    const result = await this.#on(line, work)
    line.busySince = undefined
    return result
  }

  async #mint(line: L): Promise<bigint> {
    const { driver, faults } = this.#deps
    const fence = await driver.mint(line, this)
    if (fence === undefined) throw faults.unavailable('the connection of this hold was ended')
    return fence
  }

  #hold(line: L, fence: bigint): Grant {
    const { name, attemptId } = this.request
    if (line.ended) throw this.#deps.faults.unavailable('the connection of this hold was ended')
    line.onEnd(() => {
      this.abandon()
      this.#deps.lost(this)
    })
    // Whoever forgets to close its client must still be able to end.
    line.keepAlive(false)
    return (this.grant = { name, attemptId, fence, ttlMs: this.ttlMs })
  }

  async #end(): Promise<boolean> {
    await Promise.allSettled([this.trying])
    let cancelled: boolean
    try {
      cancelled = await this.#cancelWait()
    } catch (error) {
      this.abandon()
      throw error
    }
    const line = this.#line
    this.#line = undefined
    return line !== undefined && this.#free(line, cancelled ? 'close' : 'keep')
  }

  /** Whether anything had to be cancelled. */
  async #cancelWait(): Promise<boolean> {
    const { landing } = this
    if (landing === undefined || this.grant !== undefined) return false
    let landed = false
    const over = Promise.allSettled([landing]).then(() => (landed = true))
    for (let cancels = 0; !landed && cancels < CANCELS; cancels += 1) {
      if (this.#line !== undefined) await this.#deps.driver.cancel(this.#line)
      await Promise.race([over, this.#pause(CANCEL_AGAIN_MS)])
    }
    if (!landed) this.abandon()
    return true
  }

  async #leave(line: L): Promise<void> {
    this.#line = undefined
    await this.#free(line, 'keep')
  }

  async #free(line: L, then: 'keep' | 'close'): Promise<boolean> {
    const { driver, lines, clock } = this.#deps
    line.onEnd(undefined)
    line.busySince = clock.now()
    let held: boolean
    try {
      held = await driver.free(line, this)
    } catch (error) {
      lines.discard(line)
      if (driver.saysEnded(error)) return false
      throw error
    }
    if (then === 'keep') lines.give(line)
    else lines.discard(line)
    return held
  }

  #allow(silenceMs: number): number {
    const now = this.#deps.clock.now()
    this.#silentUntil = Math.max(this.#silentUntil, now + silenceMs)
    return Math.round(this.#silentUntil - now)
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#deps.clock.timer(ms, resolve))
  }
}
