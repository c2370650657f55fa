import { Patience } from '@locks/core/adapter'
import type { Clock, LockError, Timer } from '@locks/core/adapter'
import { SILENCE_MS } from './connection.ts'
import type { Connection } from './connection.ts'
import type { SqlErrors } from './errors.ts'

/** Connections idle for this long are closed, except one. */
const IDLE_MS = 30_000
const SWEEP_MS = 1_000

export interface ConnectionPoolOptions<C extends Connection> {
  /** SHOULD give up when `closing` is aborted: a socket that still connects keeps the process alive. */
  readonly open: (closing: AbortSignal) => Promise<C>
  readonly max: number
  readonly clock: Clock
  readonly errors: SqlErrors
}

interface Waiting<C> {
  readonly resolve: (connection: C) => void
  readonly reject: (error: unknown) => void
  readonly timer: Timer | undefined
}

/** Connections that the adapter opens on demand, keeps for a while, and closes when the server falls silent. */
export class ConnectionPool<C extends Connection> {
  readonly #options: ConnectionPoolOptions<C>
  readonly #idle: { readonly connection: C; readonly since: number }[] = []
  readonly #taken = new Set<C>()
  readonly #waiting: Waiting<C>[] = []
  readonly #opening = new Set<AbortController>()
  readonly #patience = new Patience()
  #sweep: Timer | undefined
  #closed = false

  constructor(options: ConnectionPoolOptions<C>) {
    this.#options = options
  }

  get #now(): number {
    return this.#options.clock.now()
  }

  /** Open connections, and those being opened. */
  get size(): number {
    return this.#idle.length + this.#taken.size + this.#opening.size
  }

  get full(): boolean {
    return this.#idle.length === 0 && this.size >= this.#options.max
  }

  /** A connection for this caller alone until `give`. While all are taken it waits, at most `waitMs`. */
  async take(waitMs: number = Infinity): Promise<C> {
    if (this.#closed) throw this.#closedError()
    const found = this.#freshest()
    if (found !== undefined) return this.#lend(found.connection)
    if (!this.full) return this.#openOne()
    if (waitMs <= 0) throw this.#exhausted()
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        reject(this.#exhausted())
      }
      const timer = waitMs === Infinity ? undefined : this.#options.clock.timer(waitMs, giveUp)
      const waiting = { resolve, reject, timer }
      this.#waiting.push(waiting)
    })
  }

  /** Returns a connection. One that has ended is dropped. */
  give(connection: C): void {
    if (!this.#taken.delete(connection)) return
    connection.onEnd(undefined)
    connection.busySince = undefined
    if (connection.ended || this.#closed) {
      void connection.close()
      return this.#serveNext()
    }
    const next = this.#nextWaiting()
    if (next !== undefined) return next.resolve(this.#lend(connection))
    connection.keepAlive(false)
    connection.onEnd(() => this.#forget(connection))
    this.#idle.push({ connection, since: this.#now })
  }

  /** Opens a connection ahead of its use. */
  async warm(): Promise<void> {
    this.give(await this.take())
  }

  discard(connection: C): void {
    connection.destroy()
    this.give(connection)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#sweep?.cancel()
    for (let next = this.#nextWaiting(); next !== undefined; next = this.#nextWaiting())
      next.reject(this.#closedError())
    for (const opening of this.#opening) opening.abort()
    for (const connection of this.#taken) connection.destroy()
    await Promise.all(this.#idle.splice(0).map(({ connection }) => connection.close()))
  }

  async #openOne(): Promise<C> {
    const opening = new AbortController()
    this.#opening.add(opening)
    try {
      const connection = await this.#options.open(opening.signal)
      if (this.#closed) {
        void connection.close()
        throw this.#closedError()
      }
      return this.#lend(connection)
    } finally {
      this.#opening.delete(opening)
      this.#serveNext()
    }
  }

  #lend(connection: C): C {
    this.#taken.add(connection)
    connection.onEnd(undefined)
    connection.keepAlive(true)
    this.#sweep ??= this.#nextSweep()
    return connection
  }

  /** Skips connections that the server has ended or is about to end. */
  #freshest(): { readonly connection: C } | undefined {
    for (let found = this.#idle.pop(); found !== undefined; found = this.#idle.pop()) {
      if (this.#now - found.since < found.connection.idleLimitMs / 2) return found
      void found.connection.close()
    }
    return undefined
  }

  #serveNext(): void {
    if (this.full || this.#closed) return
    const next = this.#nextWaiting()
    if (next !== undefined) this.#openOne().then(next.resolve, next.reject)
  }

  #nextWaiting(): Waiting<C> | undefined {
    const next = this.#waiting.shift()
    next?.timer?.cancel()
    return next
  }

  #closedError(): LockError {
    return this.#options.errors.unavailable('the adapter was closed; no lock can be acquired')
  }

  #exhausted(): LockError {
    return this.#options.errors.unavailable(
      `all ${this.#options.max} connections are in use, so this lock cannot be tried; raise maxConnections`,
    )
  }

  #forget(connection: C): void {
    const at = this.#idle.findIndex((one) => one.connection === connection)
    if (at >= 0) this.#idle.splice(at, 1)
  }

  /** One timer for all connections: one for each statement would cost more than the rest of its bookkeeping. */
  #nextSweep(): Timer {
    const dueAt = this.#now + SWEEP_MS
    return this.#options.clock.timer(SWEEP_MS, () => this.#sweepOnce(dueAt))
  }

  #sweepOnce(dueAt: number): void {
    this.#sweep = undefined
    const now = this.#now
    for (const connection of this.#patience.forgives(dueAt, now) ? [] : this.#taken)
      if (connection.busySince !== undefined && now - connection.busySince > SILENCE_MS) connection.destroy()
    // One stays open, so that a withdrawal or a renewal need not connect first.
    while (this.#idle[1] !== undefined && now - (this.#idle[0]?.since ?? now) > IDLE_MS)
      void this.#idle.shift()?.connection.close()
    if (this.size > 0) this.#sweep = this.#nextSweep()
  }
}
