import type { Clock } from '@locks/core/adapter'
import type { ConnectionPool } from '@locks/sql'
import { advisorySql } from './advisory-sql.ts'
import type { PostgresConnection, Row, Statement } from './connection.ts'
import { isRefusal } from './errors.ts'
import { sameBackend } from './pooler.ts'

/** A statement without an answer for this long: the connection gets no new attempts. */
const STUCK_MS = 1_000
/** The limit set by a probe whose shares were removed before it is sent. Otherwise the shares set the limit. */
const IDLE_MS = 60_000

export interface CarrierEvents {
  /** The last share was removed, or the connection has ended. */
  done(carrier: Carrier): void
  /** It was stuck, and has answered. */
  recovered(): void
}

/** What one attempt has of a carrier. */
export interface CarrierShare {
  /** When the server may end the connection for silence, as far as this attempt is concerned. */
  readonly silentUntil: number
  /** The carrier has ended, and with it everything it held. */
  lost(): void
}

/**
 * A connection that carries many attempts: those that are tried, and those that hold their lock. The server lets a
 * session lock again what it has locked, so a carrier never has two attempts for one lock.
 */
export class Carrier {
  readonly #connection: PostgresConnection
  readonly #pool: ConnectionPool<PostgresConnection>
  readonly #clock: Clock
  readonly #on: CarrierEvents
  readonly #shares = new Map<string, CarrierShare>()
  /** Statements without an answer, and since when there was none. */
  #open = 0
  #quietSince = 0
  #probing: Promise<Row> | undefined
  #over = false
  /** It waits, or has waited, for the lock of its only share. */
  readonly alone: boolean
  /** A cancellation was sent, and may arrive late. */
  cancelled = false

  constructor(
    connection: PostgresConnection,
    pool: ConnectionPool<PostgresConnection>,
    clock: Clock,
    alone: boolean,
    on: CarrierEvents,
  ) {
    this.#connection = connection
    this.#pool = pool
    this.#clock = clock
    this.alone = alone
    this.#on = on
    // Core keeps the process alive while a caller waits.
    connection.keepAlive(false)
    connection.onEnd(() => this.end())
  }

  get pid(): number | undefined {
    return this.#connection.pid
  }

  get load(): number {
    return this.#shares.size
  }

  get stuck(): boolean {
    return this.#open > 0 && this.#clock.now() - this.#quietSince > STUCK_MS
  }

  get over(): boolean {
    return this.#over
  }

  has(lock: string): boolean {
    return this.#shares.has(lock)
  }

  /** Adds the share for `lock`, which no other attempt has. */
  add(lock: string, share: CarrierShare): void {
    this.#shares.set(lock, share)
  }

  tryLock(lock: string, key: string): Promise<Row> {
    return this.#ask(advisorySql.tryLock, [lock, key, this.#allowed(), this.pid])
  }

  /** Waits for the lock. `prepared` is answered at once, `locked` when the server has granted it. */
  lock(lock: string, key: string): { readonly prepared: Promise<Row>; readonly locked: Promise<Row> } {
    const prepared = this.#ask(advisorySql.prepareWait, [this.#allowed()])
    return { prepared, locked: this.#checked(advisorySql.lock, [lock, key, this.pid]) }
  }

  /** Checks that the session lives: once for all shares that ask for it at the same time. */
  probe(): Promise<Row> {
    this.#probing ??= Promise.resolve().then(() => {
      this.#probing = undefined
      return this.#ask(advisorySql.probe, [this.#allowed()])
    })
    return this.#probing
  }

  /** Unlocks, and removes the share. The server runs it after everything that was sent before. */
  async unlock(lock: string, key: string): Promise<Row> {
    this.#shares.delete(lock)
    try {
      return await this.#ask(advisorySql.unlock, [lock, key, this.pid])
    } catch (error) {
      // The session may still have the lock. Only its end is sure to free it.
      this.end()
      throw error
    }
  }

  /** Removes a share whose lock was not granted. */
  remove(lock: string): void {
    this.#shares.delete(lock)
    this.settle()
  }

  end(): void {
    if (this.#over) return
    this.#over = true
    this.#on.done(this)
    this.#pool.discard(this.#connection)
    const lost = [...this.#shares.values()]
    this.#shares.clear()
    for (const share of lost) share.lost()
  }

  /** As long as the most patient share allows. */
  #allowed(): string {
    const untils = [...this.#shares.values()].map(({ silentUntil }) => silentUntil - this.#clock.now())
    const silenceMs = untils.length === 0 ? IDLE_MS : Math.max(1, Math.ceil(Math.max(...untils)))
    this.#connection.idleLimitMs = silenceMs
    return String(silenceMs)
  }

  async #ask(statement: Statement, values: unknown[]): Promise<Row> {
    if (this.#open === 0) this.#quietSince = this.#clock.now()
    this.#open += 1
    this.settle()
    try {
      return await this.#checked(statement, values)
    } finally {
      const wasStuck = this.stuck
      this.#open -= 1
      this.#quietSince = this.#clock.now()
      this.settle()
      if (wasStuck) this.#on.recovered()
    }
  }

  async #checked(statement: Statement, values: unknown[]): Promise<Row> {
    try {
      const [pid, ...row] = await this.#connection.ask(statement, values)
      this.#connection.pid = sameBackend(this.#connection.pid, Number(pid))
      return row
    } catch (error) {
      // After a refusal by the server the session goes on, and with it the locks of the others.
      if (!isRefusal(error)) this.end()
      throw error
    }
  }

  /** Gives the connection back to the pool, if nothing needs it. */
  settle(): void {
    if (this.#over) return
    const empty = this.#shares.size === 0
    // A silent server ends the connection when no hold depends on it any more.
    this.#connection.busySince = empty && this.#open > 0 ? this.#quietSince : undefined
    if (!empty || this.#open > 0) return
    if (this.cancelled) return this.end()
    this.#over = true
    this.#on.done(this)
    this.#pool.give(this.#connection)
  }
}
