import type { AcquireRequest, Busy, Clock, Grant, PushedGrant } from '@locks/core'
import { randomBytes } from 'node:crypto'
import { errnoOf, unavailable } from './errors.ts'
import { readHolder, writeHolder } from './holder.ts'
import type { Line } from './line.ts'
import type { Lines } from './lines.ts'
import type { Runner } from './runner.ts'
import { getKey } from './sql.ts'
import type { SessionStatements } from './sql.ts'

/** How long an acquire that may wait does so for a free connection. */
const CONNECTION_WAIT_MS = 4_000
/** How often a waiting statement is killed again: between two statements there is nothing to kill. */
const KILL_AGAIN_MS = 50
const KILLS = 40
/** A name that is locked without a holder soon has one, or is free. */
const UNDECIDED_MS = 5
const TRIES = 20
const DUPLICATE = 1062

export interface SessionDeps {
  readonly lines: Lines
  readonly runner: Runner
  readonly sql: SessionStatements
  readonly clock: Clock
  readonly sessionTtlMs: number
  readonly lockName: (name: string) => string
  /** The connection of a hold ended by itself. */
  readonly lost: (session: Session) => void
}

/** One attempt's connection: it tries, waits, holds, and is over. */
export class Session {
  readonly request: AcquireRequest
  readonly ttlMs: number
  readonly #deps: SessionDeps
  readonly #key = `locks:${randomBytes(12).toString('hex')}`
  #line: Line | undefined
  #withdrawn = false
  grant: Grant | undefined
  /** The try that is under way. */
  trying: Promise<Grant | Busy> | undefined
  /** The wait that is under way at the server, across calls. */
  landing: Promise<PushedGrant | undefined> | undefined

  constructor(request: AcquireRequest, deps: SessionDeps) {
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

  /** Proves that the connection lives, and gives it another `ttlMs` of silence. */
  async probe(ttlMs: number): Promise<void> {
    const line = this.#line
    if (line === undefined) throw unavailable('the connection of this hold is gone')
    if (!(await this.#allowSilence(line, Math.min(ttlMs, this.#deps.sessionTtlMs)))) await line.query('DO 1')
  }

  /** Ends the hold or wait, whatever it is at: the name is free when this resolves. */
  async end(): Promise<void> {
    this.#withdrawn = true
    await Promise.allSettled([this.trying])
    const killed = await this.#killWait()
    const line = this.#line
    this.#line = undefined
    if (line !== undefined) await this.#free(line, killed ? 'close' : 'keep')
  }

  /** For a connection that may be beyond talking to. */
  abandon(): void {
    this.#withdrawn = true
    const line = this.#line
    this.#line = undefined
    if (line !== undefined) this.#deps.lines.discard(line)
  }

  async #tryLock(): Promise<Grant | Busy> {
    const { sql } = this.#deps
    const name = Buffer.from(this.request.name)
    for (let tries = 1; ; tries += 1) {
      const line = await this.#take()
      if (await this.#on(line, () => this.#lock(line, 'try')))
        return this.#hold(line, await this.#on(line, () => this.#mint(line)))
      const { rows } = await this.#on(line, () => line.query(sql.look, [name]))
      const [there, , fence, holder, since] = rows[0] ?? []
      const by = readHolder(holder, fence, since)
      if (there !== '1' && tries < TRIES) {
        await this.#on(line, () => this.#makeRow(line))
        await this.#leave(line)
      } else if (this.request.willWait || by !== undefined || tries >= TRIES) {
        if (this.request.willWait) this.#queue(line)
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

  /**
   * An INSERT of a row that is there waits for whoever has locked it, however long. So rows are made by one at
   * a time, who looks first.
   */
  async #makeRow(line: Line): Promise<void> {
    const { sql, lockName } = this.#deps
    const name = Buffer.from(this.request.name)
    if (sql.makeRow === undefined) return
    await line.query('ROLLBACK')
    const { rows } = await line.query(sql.makeRow.lock, [lockName(this.request.name)])
    if (rows[0]?.[0] !== '1') throw unavailable('the row of the lock cannot be made')
    const found = await line.query(sql.makeRow.look, [name])
    if (found.rows.length === 0) await line.query(sql.makeRow.insert, [name])
  }

  /** Whether the name is locked now, and the key that shows so with it. */
  async #lock(line: Line, how: 'try' | 'wait'): Promise<boolean> {
    const { sql, lockName } = this.#deps
    const { name } = this.request
    const text = how === 'try' ? sql.tryLock : sql.lock
    if (how === 'try') {
      await this.#allowSilence(line, this.ttlMs)
      if (sql.begin !== undefined) await line.query(sql.begin)
    }
    if (sql.begin !== undefined)
      return (await line.query(text, [this.#key, Buffer.from(name)])).rows.length > 0
    const { rows } = await line.query(text, [lockName(name)])
    const [got] = rows[0] ?? []
    // NULL is neither "yours" nor "somebody else's".
    if (got === undefined) throw unavailable('GET_LOCK failed')
    if (got === '1') await line.query(getKey, [this.#key])
    return got === '1'
  }

  /** Starts the statement that waits. */
  #queue(line: Line): void {
    this.landing = this.#on(line, async () => {
      const got = await this.#lock(line, 'wait')
      if (this.#withdrawn) return undefined
      if (!got) {
        await this.#leave(line)
        return undefined
      }
      // The server granted it some time ago. What counts is a proof of life that was asked for since.
      const grantedAt = this.#deps.clock.now()
      const [fence] = await Promise.all([this.#mint(line), this.probe(this.ttlMs)])
      return { ...this.#hold(line, fence), grantedAt }
    })
    this.landing.catch(() => undefined)
  }

  async #leave(line: Line): Promise<void> {
    this.#line = undefined
    await this.#free(line, 'keep')
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

  /** A connection that failed is not used again: nobody knows what it holds. */
  async #on<T>(line: Line, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      if (this.#line === line && !this.#withdrawn) this.abandon()
      throw error
    }
  }

  /** Ends a silent connection after whole seconds, never before its ttl. Whether that had to be said. */
  async #allowSilence(line: Line, ttlMs: number): Promise<boolean> {
    const seconds = Math.ceil(ttlMs / 1_000)
    if (line.waitTimeoutS === seconds) return false
    await line.query(`SET SESSION wait_timeout = ${seconds}`)
    line.waitTimeoutS = seconds
    return true
  }

  /** On another connection, committed: what the holding transaction wrote would be gone with it. */
  async #mint({ thread }: Line): Promise<bigint> {
    const { name, attemptId } = this.request
    const { runner, sql } = this.#deps
    const about = [attemptId, writeHolder(this.request), this.#key, thread]
    for (let tries = 1; tries <= TRIES; tries += 1) {
      const { insertId: fence } = await runner.run(sql.mint, [...about, Buffer.from(name), this.#key])
      if (fence > 0n) return fence
      const values = [Buffer.from(name), ...about, this.#key]
      const made = await runner.run(sql.makeCounter, values).catch(ignoreDuplicate)
      if (made === undefined) continue
      if (made.insertId > 0n) return made.insertId
      break
    }
    throw unavailable('the connection of this hold was ended')
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

  /** Whether anything had to be killed. */
  async #killWait(): Promise<boolean> {
    const { landing } = this
    if (landing === undefined || this.grant !== undefined) return false
    const thread = this.#line?.thread
    let landed = false
    const over = Promise.allSettled([landing]).then(() => (landed = true))
    for (let kills = 0; !landed && kills < KILLS; kills += 1) {
      if (thread !== undefined) await this.#deps.runner.run(`KILL QUERY ${thread}`)
      await Promise.race([over, this.#pause(KILL_AGAIN_MS)])
    }
    if (!landed) this.abandon()
    return true
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#deps.clock.timer(ms, resolve))
  }

  async #free(line: Line, then: 'keep' | 'close'): Promise<void> {
    const { lines, sql, clock } = this.#deps
    line.onEnd(undefined)
    line.busySince = clock.now()
    try {
      for (const text of sql.free) await line.query(text)
    } catch (error) {
      lines.discard(line)
      throw error
    }
    if (then === 'keep') lines.give(line)
    else lines.discard(line)
  }
}

function ignoreDuplicate(error: unknown): undefined {
  if (errnoOf(error) === DUPLICATE) return undefined
  throw error
}
