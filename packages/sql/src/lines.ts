import type { Clock, LockError, Timer } from '@locks/core/adapter'
import type { Faults } from './faults.ts'
import type { Line } from './line.ts'
import { PAUSE_MS, SILENCE_MS } from './silence.ts'

/** Connections that nobody used for this long are closed, but for one. */
const IDLE_MS = 30_000
const SWEEP_MS = 1_000

export interface LinesOptions<L extends Line> {
  /** SHOULD give up when `closing` is aborted: a socket that still connects keeps the process alive. */
  readonly open: (closing: AbortSignal) => Promise<L>
  readonly max: number
  readonly clock: Clock
  readonly faults: Faults
}

interface Waiting<L> {
  readonly resolve: (line: L) => void
  readonly reject: (error: unknown) => void
  readonly timer: Timer | undefined
}

/** The adapter's own connections, opened on demand, kept for a while, given up when the server falls silent. */
export class Lines<L extends Line> {
  readonly #open: (closing: AbortSignal) => Promise<L>
  readonly #max: number
  readonly #clock: Clock
  readonly #faults: Faults
  readonly #idle: { readonly line: L; readonly since: number }[] = []
  readonly #taken = new Set<L>()
  readonly #waiting: Waiting<L>[] = []
  readonly #opening = new Set<AbortController>()
  #sweep: Timer | undefined
  /** Whether the last sweep left the silent alone. */
  #spared = false
  #closed = false

  constructor({ open, max, clock, faults }: LinesOptions<L>) {
    this.#open = open
    this.#max = max
    this.#clock = clock
    this.#faults = faults
  }

  /** Open connections, for those who count. */
  get size(): number {
    return this.#idle.length + this.#taken.size + this.#opening.size
  }

  get full(): boolean {
    return this.#idle.length === 0 && this.size >= this.#max
  }

  /** A connection for the caller alone, who gives it back. While all are taken it waits, but not for longer than told. */
  async take(waitMs: number = Infinity): Promise<L> {
    if (this.#closed) throw this.#closedError()
    const found = this.#freshest()
    if (found !== undefined) return this.#lend(found.line)
    if (!this.full) return this.#openOne()
    if (waitMs <= 0) throw this.#exhausted()
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        reject(this.#exhausted())
      }
      const timer = waitMs === Infinity ? undefined : this.#clock.timer(waitMs, giveUp)
      const waiting = { resolve, reject, timer }
      this.#waiting.push(waiting)
    })
  }

  /** Back to the others, unless it is of no more use. */
  give(line: L): void {
    if (!this.#taken.delete(line)) return
    line.onEnd(undefined)
    line.busySince = undefined
    if (line.ended || this.#closed) {
      void line.close()
      return this.#serveNext()
    }
    const next = this.#nextWaiting()
    if (next !== undefined) return next.resolve(this.#lend(line))
    line.keepAlive(false)
    line.onEnd(() => this.#forget(line))
    this.#idle.push({ line, since: this.#clock.now() })
  }

  discard(line: L): void {
    line.destroy()
    this.give(line)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#sweep?.cancel()
    for (let next = this.#nextWaiting(); next !== undefined; next = this.#nextWaiting())
      next.reject(this.#closedError())
    for (const opening of this.#opening) opening.abort()
    for (const line of this.#taken) line.destroy()
    await Promise.all(this.#idle.splice(0).map(({ line }) => line.close()))
  }

  async #openOne(): Promise<L> {
    const opening = new AbortController()
    this.#opening.add(opening)
    try {
      const line = await this.#open(opening.signal)
      if (this.#closed) {
        void line.close()
        throw this.#closedError()
      }
      return this.#lend(line)
    } finally {
      this.#opening.delete(opening)
      this.#serveNext()
    }
  }

  #lend(line: L): L {
    this.#taken.add(line)
    line.onEnd(undefined)
    line.keepAlive(true)
    this.#sweep ??= this.#nextSweep()
    return line
  }

  /** One that the server is about to end, or has ended, is of no use. */
  #freshest(): { readonly line: L } | undefined {
    for (let found = this.#idle.pop(); found !== undefined; found = this.#idle.pop()) {
      if (this.#clock.now() - found.since < found.line.idleLimitMs / 2) return found
      void found.line.close()
    }
    return undefined
  }

  #serveNext(): void {
    if (this.full || this.#closed) return
    const next = this.#nextWaiting()
    if (next !== undefined) this.#openOne().then(next.resolve, next.reject)
  }

  #nextWaiting(): Waiting<L> | undefined {
    const next = this.#waiting.shift()
    next?.timer?.cancel()
    return next
  }

  #closedError(): LockError {
    return this.#faults.unavailable('the adapter was closed')
  }

  #exhausted(): LockError {
    return this.#faults.unavailable(`all ${this.#max} connections are in use; see maxConnections`)
  }

  #forget(line: L): void {
    const at = this.#idle.findIndex((one) => one.line === line)
    if (at >= 0) this.#idle.splice(at, 1)
  }

  /** One timer for all: a timer for each statement would cost more than the statement's own bookkeeping. */
  #nextSweep(): Timer {
    const dueAt = this.#clock.now() + SWEEP_MS
    return this.#clock.timer(SWEEP_MS, () => this.#sweepOnce(dueAt))
  }

  #sweepOnce(dueAt: number): void {
    this.#sweep = undefined
    const now = this.#clock.now()
    this.#spared = !this.#spared && now - dueAt >= PAUSE_MS
    for (const line of this.#spared ? [] : this.#taken)
      if (line.busySince !== undefined && now - line.busySince > SILENCE_MS) line.destroy()
    // One stays, so that whoever has to act at once need not connect first.
    while (this.#idle[1] !== undefined && now - (this.#idle[0]?.since ?? now) > IDLE_MS)
      void this.#idle.shift()?.line.close()
    if (this.size > 0) this.#sweep = this.#nextSweep()
  }
}
