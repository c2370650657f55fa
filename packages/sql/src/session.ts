import { orAfter, pause } from '@locks/core/adapter'
import type { AcquireRequest, Busy, Clock, Grant, LockError, PushedGrant } from '@locks/core/adapter'
import type { Connection } from './connection.ts'
import type { ConnectionPool } from './connection-pool.ts'
import type { SqlErrors } from './errors.ts'
import type { SessionDriver } from './session-driver.ts'

/** How long an acquire that may wait waits for a free connection. */
const CONNECTION_WAIT_MS = 4_000
/** A waiting statement is cancelled this often: between two statements there is nothing to cancel. */
const CANCEL_AGAIN_MS = 50
const CANCELS = 40
/** A name that is locked without a holder soon has one or is free: tried ever more slowly, for two seconds in all. */
const UNDECIDED_MS = 5
const TRIES = 28
const LOCKED_BY_STRANGER =
  'the name is locked by a session that is not a registered holder, so the lock cannot be acquired; end that session'

export interface SessionOptions<C extends Connection> {
  readonly driver: SessionDriver<C>
  /** A connection for each holder and each waiter. */
  readonly connections: ConnectionPool<C>
  readonly errors: SqlErrors
  /** The longest silence of a holder, even where its ttl is longer. */
  readonly sessionTtlMs: number
}

interface SessionDeps<C extends Connection> extends SessionOptions<C> {
  readonly clock: Clock
  /** Called when the connection of a hold ends by itself. */
  readonly lost: (session: Session<C>) => void
}

/** The connection of one attempt: it tries, waits, holds, and ends. */
export class Session<C extends Connection> {
  readonly request: AcquireRequest
  readonly ttlMs: number
  readonly key: string
  readonly #deps: SessionDeps<C>
  #connection: C | undefined
  #withdrawn = false
  #ending: Promise<boolean> | undefined
  /** How long the server tolerates silence, at the latest: a later probe must not shorten that. */
  #silentUntil = 0
  grant: Grant | undefined
  /** The try under way: a withdrawal after `storeTimeoutMs` may meet it. */
  #trying: Promise<Grant | Busy> | undefined
  /** The wait under way at the server; it spans calls. */
  landing: Promise<PushedGrant | undefined> | undefined

  constructor(request: AcquireRequest, deps: SessionDeps<C>) {
    this.request = request
    this.ttlMs = Math.min(request.ttlMs, deps.sessionTtlMs)
    this.key = deps.driver.newKey()
    this.#deps = deps
  }

  get over(): boolean {
    return this.#withdrawn || this.#connection === undefined || this.#connection.ended
  }

  tryLock(): Promise<Grant | Busy> {
    return (this.#trying ??= this.#tryLock().finally(() => (this.#trying = undefined)))
  }

  /** Checks that the connection lives, and allows it another `ttlMs` of silence. */
  async probe(ttlMs: number): Promise<void> {
    const { driver, sessionTtlMs } = this.#deps
    if (this.#connection === undefined) throw this.#gone()
    await driver.probe(this.#connection, this.#allow(Math.min(ttlMs, sessionTtlMs)))
  }

  /** Whether the server still has the waiting connection. */
  async isThere(): Promise<boolean> {
    return this.#connection !== undefined && this.#deps.driver.isThere(this.#connection)
  }

  /**
   * Ends the hold, the wait or the try. Once this resolves the name is free, with whether this session held it
   * until then.
   */
  end(): Promise<boolean> {
    this.#withdrawn = true
    return (this.#ending ??= this.#end())
  }

  /** Ends the session without telling the server, which frees the name when the connection closes. */
  discard(): void {
    this.#withdrawn = true
    const connection = this.#connection
    this.#connection = undefined
    if (connection !== undefined) this.#deps.connections.discard(connection)
  }

  /** After a try that failed. A withdrawal under way cleans up by itself. */
  tryFailed(): void {
    if (!this.#withdrawn) this.discard()
  }

  async #tryLock(): Promise<Grant | Busy> {
    const { driver, errors } = this.#deps
    for (let tries = 1; ; tries += 1) {
      const connection = await this.#take()
      const tried = await this.#soon(connection, () =>
        driver.tryLock(connection, this, this.#allow(this.ttlMs)),
      )
      if (tried === 'locked')
        return this.#hold(connection, await this.#on(connection, () => this.#mint(connection)))
      if (tried === 'missing') {
        if (tries >= TRIES)
          throw errors.unavailable(
            'the lock row keeps being deleted, so the lock cannot be acquired; look for what deletes rows of its table',
          )
        await this.#soon(connection, () => driver.make(connection, this))
        await this.#return(connection)
      } else if (this.request.willWait || tried.holder !== undefined) {
        // Queued at the server before this returns, so that later attempts stand behind.
        if (this.request.willWait) await this.#soon(connection, () => this.#queue(connection))
        else await this.#return(connection)
        // The server cannot skip a wait, but its answer can be lost on the way.
        return { busy: true, retryInMs: this.ttlMs, ...(tried.holder && { holder: tried.holder }) }
      } else {
        // Locked without a holder: about to be held, by a wait that was cancelled as it was granted, or by a clean-up.
        await this.#return(connection)
        if (tries >= TRIES) throw errors.unavailable(LOCKED_BY_STRANGER)
        await pause(this.#deps.clock, UNDECIDED_MS * tries)
      }
    }
  }

  /** Starts the statement that waits for the lock. */
  async #queue(connection: C): Promise<void> {
    const { queued, locked } = this.#deps.driver.queue(connection, this)
    this.landing = this.#on(connection, () => this.#land(connection, locked))
    this.landing.catch(() => undefined)
    await queued
  }

  async #land(connection: C, locked: Promise<boolean>): Promise<PushedGrant | undefined> {
    const got = await locked
    if (this.#withdrawn) return undefined
    if (!got) {
      await this.#return(connection)
      return undefined
    }
    // The server granted it some time ago. The lease counts from a probe sent since.
    const grantedAt = this.#deps.clock.now()
    const [fence] = await Promise.all([this.#mint(connection), this.probe(this.ttlMs)])
    return { ...this.#hold(connection, fence), grantedAt }
  }

  async #take(): Promise<C> {
    const { connections, errors } = this.#deps
    const connection = this.#withdrawn
      ? undefined
      : await connections.take(this.request.willWait ? CONNECTION_WAIT_MS : 0)
    if (connection !== undefined && !this.#withdrawn) return (this.#connection = connection)
    if (connection !== undefined) connections.give(connection)
    throw errors.unavailable('the request was withdrawn; nothing is held')
  }

  /** A connection that failed is not used again: what it holds is unknown. */
  async #on<T>(connection: C, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (this.#connection === connection && !this.#withdrawn) this.discard()
      throw error
    }
  }

  /** For short work: a connection that stays silent is closed, which fails the work. */
  async #soon<T>(connection: C, work: () => Promise<T>): Promise<T> {
    connection.busySince = this.#deps.clock.now()
    const result = await this.#on(connection, work)
    connection.busySince = undefined
    return result
  }

  async #mint(connection: C): Promise<bigint> {
    const fence = await this.#deps.driver.mint(connection, this)
    if (fence === undefined) throw this.#gone()
    return fence
  }

  #hold(connection: C, fence: bigint): Grant {
    const { name, attemptId } = this.request
    if (connection.ended) throw this.#gone()
    connection.onEnd(() => {
      this.discard()
      this.#deps.lost(this)
    })
    // A program that forgets to close its client must still be able to exit.
    connection.keepAlive(false)
    return (this.grant = { name, attemptId, fence, ttlMs: this.ttlMs })
  }

  async #end(): Promise<boolean> {
    await Promise.allSettled([this.#trying])
    let cancelled: boolean
    try {
      cancelled = await this.#cancelWait()
    } catch (error) {
      this.discard()
      throw error
    }
    const connection = this.#connection
    this.#connection = undefined
    return connection !== undefined && this.#free(connection, cancelled ? 'close' : 'keep')
  }

  /** Cancels the wait, and resolves with whether there was one. */
  async #cancelWait(): Promise<boolean> {
    const { landing } = this
    if (landing === undefined || this.grant !== undefined) return false
    const { clock, driver } = this.#deps
    const over = Promise.allSettled([landing])
    for (let cancels = 0; cancels < CANCELS; cancels += 1) {
      if (this.#connection !== undefined) await driver.cancel(this.#connection)
      if ((await orAfter(clock, CANCEL_AGAIN_MS, over)) !== undefined) return true
    }
    this.discard()
    return true
  }

  async #return(connection: C): Promise<void> {
    this.#connection = undefined
    await this.#free(connection, 'keep')
  }

  async #free(connection: C, then: 'keep' | 'close'): Promise<boolean> {
    const { driver, connections, clock } = this.#deps
    connection.onEnd(undefined)
    connection.busySince = clock.now()
    let held: boolean
    try {
      held = await driver.free(connection, this)
    } catch (error) {
      connections.discard(connection)
      if (driver.saysEnded(error)) return false
      throw error
    }
    if (then === 'keep') connections.give(connection)
    else connections.discard(connection)
    return held
  }

  #allow(silenceMs: number): number {
    const now = this.#deps.clock.now()
    this.#silentUntil = Math.max(this.#silentUntil, now + silenceMs)
    return Math.round(this.#silentUntil - now)
  }

  #gone(): LockError {
    return this.#deps.errors.unavailable('the connection of this hold has ended, so the lock is not held')
  }
}
