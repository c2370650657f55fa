import type { AcquireRequest, Busy, Clock, Grant, PushedGrant } from '@locks/core'
import { randomBytes } from 'node:crypto'
import { unavailable } from './errors.ts'
import { readHolder, writeHolder } from './holder.ts'
import type { Line, Row } from './line.ts'
import type { Lines } from './lines.ts'
import type { Runner } from './runner.ts'
import type { RowStatements } from './sql.ts'

/** How long an acquire that may wait does so for a free connection. */
const CONNECTION_WAIT_MS = 4_000
/** How often a waiting statement is cancelled again: a signal between two statements goes unheard. */
const CANCEL_AGAIN_MS = 50
const CANCELS = 40
/** A row that is locked without a holder soon has one, or is free. */
const UNDECIDED_MS = 5
const TRIES = 20

export interface RowDeps {
  readonly lines: Lines
  readonly runner: Runner
  readonly sql: RowStatements
  readonly clock: Clock
  readonly sessionTtlMs: number
  /** The connection of a hold ended by itself. */
  readonly lost: (session: RowSession) => void
}

/** One attempt's connection and transaction: it tries, waits, holds, and is over. */
export class RowSession {
  readonly request: AcquireRequest
  readonly ttlMs: number
  readonly #deps: RowDeps
  readonly #key = String(randomBytes(8).readBigUInt64BE() >> 1n)
  #line: Line | undefined
  #pid: string | null = null
  #withdrawn = false
  grant: Grant | undefined
  /** The try that is under way. */
  trying: Promise<Grant | Busy> | undefined
  /** The wait that is under way at the server, across calls. */
  landing: Promise<PushedGrant | undefined> | undefined

  constructor(request: AcquireRequest, deps: RowDeps) {
    this.request = request
    this.ttlMs = Math.min(request.ttlMs, deps.sessionTtlMs)
    this.#deps = deps
  }

  get over(): boolean {
    return this.#withdrawn || this.#line === undefined || this.#line.ended
  }

  tryLock(): Promise<Grant | Busy> {
    return (this.trying ??= this.#tryLock().finally(() => (this.trying = undefined)))
  }

  /** Proves that the transaction lives, and gives it another `ttlMs` of silence. */
  async probe(ttlMs: number): Promise<void> {
    const { sql, sessionTtlMs } = this.#deps
    if (this.#line === undefined) throw unavailable('the connection of this hold is gone')
    await this.#line.query(sql.probe, [String(Math.min(ttlMs, sessionTtlMs))])
  }

  /** Whether the server still knows the waiting connection, as seen from another. */
  async isThere(): Promise<boolean> {
    const { runner, sql } = this.#deps
    return this.#pid === null || (await runner.run(sql.isThere, [this.#pid])).length > 0
  }

  /** Ends the transaction, whatever it is at: the name is free when this resolves. */
  async end(): Promise<void> {
    this.#withdrawn = true
    await Promise.allSettled([this.trying])
    const cancelled = await this.#cancelWait()
    const line = this.#line
    this.#line = undefined
    if (line === undefined) return
    await this.#rollBack(line, cancelled ? 'close' : 'keep')
  }

  /** For a connection that may be beyond talking to. */
  abandon(): void {
    this.#withdrawn = true
    const line = this.#line
    this.#line = undefined
    if (line !== undefined) this.#deps.lines.discard(line)
  }

  async #tryLock(): Promise<Grant | Busy> {
    const { runner, sql } = this.#deps
    const name = Buffer.from(this.request.name)
    for (let tries = 1; ; tries += 1) {
      const line = await this.#take()
      const [, [row = []]] = await this.#on(line, () =>
        Promise.all([line.query(sql.begin), line.query(sql.tryLock, [name, String(this.ttlMs), this.#key])]),
      )
      const [got, there, , pid, , fence, holder, since] = row
      this.#pid = pid ?? null
      if (got === 't') return this.#hold(line, await this.#on(line, () => this.#mint()))
      const by = readHolder(holder, fence, since)
      if (there !== 't') {
        await this.#leave(line)
        if (tries >= TRIES) throw unavailable('the row of the lock was deleted again and again')
        await runner.run(sql.makeRow, [name])
      } else if (this.request.willWait || by !== undefined || tries >= TRIES) {
        // In line at the server before anybody is told of it, so that those who come later stand behind.
        if (this.request.willWait) await this.#on(line, () => this.#queue(line))
        else await this.#leave(line)
        // A wait cannot be missed, but its answer can be lost on the way.
        return { busy: true, retryInMs: this.ttlMs, ...(by && { holder: by }) }
      } else {
        // Locked by nobody who holds it: by one about to, or by a wait that was given up as it was granted.
        await this.#leave(line)
        await this.#pause(UNDECIDED_MS)
      }
    }
  }

  /** Starts the statement that waits. */
  async #queue(line: Line): Promise<void> {
    const { sql } = this.#deps
    // Sent together: the server takes one after the other, and stays with the second.
    const prepared = line.query(sql.prepareWait)
    const locked = line.query(sql.lock, [Buffer.from(this.request.name), this.#key])
    this.landing = this.#on(line, () => this.#land(line, prepared, locked))
    this.landing.catch(() => undefined)
    // The second also opens the connection on which a wait is cancelled, if there was none: that must not take long.
    await Promise.all([prepared, this.isThere()])
  }

  async #land(line: Line, ...sent: readonly Promise<readonly Row[]>[]): Promise<PushedGrant | undefined> {
    const [, rows = []] = await Promise.all(sent)
    if (this.#withdrawn) return undefined
    if (rows.length === 0) {
      await this.#leave(line)
      return undefined
    }
    // The server granted it some time ago. What counts is a proof of life that was asked for since.
    const grantedAt = this.#deps.clock.now()
    const [fence] = await Promise.all([this.#mint(), this.probe(this.ttlMs)])
    return { ...this.#hold(line, fence), grantedAt }
  }

  async #leave(line: Line): Promise<void> {
    this.#line = undefined
    await this.#rollBack(line, 'keep')
  }

  async #take(): Promise<Line> {
    const { lines } = this.#deps
    const queued = lines.full
    const line = await lines.take(this.request.willWait ? CONNECTION_WAIT_MS : 0)
    this.#line = line
    if (!this.#withdrawn || !queued) return line
    // Others may stand in line for a connection too.
    this.#line = undefined
    lines.give(line)
    throw unavailable('the request was withdrawn')
  }

  /** A connection that failed is not used again: nobody knows what state its transaction is in. */
  async #on<T>(line: Line, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (this.#line === line && !this.#withdrawn) this.abandon()
      throw error
    }
  }

  /** On another connection, committed: what the holding transaction wrote would be gone with it. */
  async #mint(): Promise<bigint> {
    const { name, attemptId } = this.request
    const { runner, sql } = this.#deps
    const values = [Buffer.from(name), attemptId, writeHolder(this.request), this.#key, this.#pid]
    const [[fence] = []] = await runner.run(sql.mint, values)
    if (fence === null || fence === undefined) throw unavailable('the connection of this hold was ended')
    return BigInt(fence)
  }

  #hold(line: Line, fence: bigint): Grant {
    const { name, attemptId } = this.request
    if (line.ended) throw unavailable('the connection of this hold was ended')
    line.onEnd(() => {
      this.abandon()
      this.#deps.lost(this)
    })
    // Whoever forgets to close its client must still be able to end.
    line.keepAlive(false)
    return (this.grant = { name, attemptId, fence, ttlMs: this.ttlMs })
  }

  /** Whether anything had to be cancelled. */
  async #cancelWait(): Promise<boolean> {
    const { landing } = this
    if (landing === undefined || this.grant !== undefined) return false
    const { runner, sql } = this.#deps
    let landed = false
    const over = Promise.allSettled([landing]).then(() => (landed = true))
    for (let cancels = 0; !landed && cancels < CANCELS; cancels += 1) {
      if (this.#pid !== null) await runner.run(sql.cancel, [this.#pid])
      await Promise.race([over, this.#pause(CANCEL_AGAIN_MS)])
    }
    if (!landed) this.abandon()
    return true
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#deps.clock.timer(ms, resolve))
  }

  async #rollBack(line: Line, then: 'keep' | 'close'): Promise<void> {
    const { lines, sql, clock } = this.#deps
    line.onEnd(undefined)
    line.busySince = clock.now()
    try {
      await line.query(sql.rollback)
    } catch (error) {
      lines.discard(line)
      throw error
    }
    if (then === 'keep') lines.give(line)
    else lines.discard(line)
  }
}
