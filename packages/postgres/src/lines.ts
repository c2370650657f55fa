import type { Clock, LockError, Timer } from '@locks/core'
import type { Line } from './line.ts'
import { unavailable } from './errors.ts'

/** A short statement that takes longer has lost its server: the connection is given up. */
const SILENCE_MS = 5_000
/** Connections that nobody used for this long are closed, but for one. */
const IDLE_MS = 30_000
const SWEEP_MS = 1_000

export interface LinesOptions {
  readonly open: () => Promise<Line>
  readonly max: number
  readonly clock: Clock
}

interface Waiting {
  readonly resolve: (line: Line) => void
  readonly reject: (error: unknown) => void
  readonly timer: Timer | undefined
}

/** The adapter's own connections, opened on demand, kept for a while, given up when the server falls silent. */
export class Lines {
  readonly #open: () => Promise<Line>
  readonly #max: number
  readonly #clock: Clock
  readonly #idle: { readonly line: Line; readonly since: number }[] = []
  readonly #taken = new Set<Line>()
  readonly #waiting: Waiting[] = []
  #opening = 0
  #sweep: Timer | undefined
  #closed = false

  constructor({ open, max, clock }: LinesOptions) {
    this.#open = open
    this.#max = max
    this.#clock = clock
  }

  /** Open connections, for those who count. */
  get size(): number {
    return this.#idle.length + this.#taken.size + this.#opening
  }

  get full(): boolean {
    return this.#idle.length === 0 && this.size >= this.#max
  }

  /** A connection for the caller alone, who gives it back. While all are taken it waits, but not for longer than told. */
  async take(waitMs: number = Infinity): Promise<Line> {
    if (this.#closed) throw unavailable('the adapter was closed')
    const found = this.#idle.pop()
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
  give(line: Line): void {
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

  discard(line: Line): void {
    line.destroy()
    this.give(line)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#sweep?.cancel()
    for (let next = this.#nextWaiting(); next !== undefined; next = this.#nextWaiting())
      next.reject(unavailable('the adapter was closed'))
    for (const line of this.#taken) line.destroy()
    await Promise.all(this.#idle.splice(0).map(({ line }) => line.close()))
  }

  async #openOne(): Promise<Line> {
    this.#opening += 1
    try {
      const line = await this.#open()
      if (this.#closed) {
        void line.close()
        throw unavailable('the adapter was closed')
      }
      return this.#lend(line)
    } finally {
      this.#opening -= 1
      this.#serveNext()
    }
  }

  #lend(line: Line): Line {
    this.#taken.add(line)
    line.onEnd(undefined)
    line.keepAlive(true)
    this.#sweep ??= this.#clock.timer(SWEEP_MS, () => this.#sweepOnce())
    return line
  }

  #serveNext(): void {
    if (this.full || this.#closed) return
    const next = this.#nextWaiting()
    if (next !== undefined) this.#openOne().then(next.resolve, next.reject)
  }

  #nextWaiting(): Waiting | undefined {
    const next = this.#waiting.shift()
    next?.timer?.cancel()
    return next
  }

  #exhausted(): LockError {
    return unavailable(`all ${this.#max} connections are in use; see maxConnections`)
  }

  #forget(line: Line): void {
    const at = this.#idle.findIndex((one) => one.line === line)
    if (at >= 0) this.#idle.splice(at, 1)
  }

  /** One timer for all: a timer for each statement would cost more than the statement's own bookkeeping. */
  #sweepOnce(): void {
    this.#sweep = undefined
    const now = this.#clock.now()
    for (const line of this.#taken)
      if (line.busySince !== undefined && now - line.busySince > SILENCE_MS) line.destroy()
    // One stays, so that whoever has to act at once need not connect first.
    while (this.#idle[1] !== undefined && now - (this.#idle[0]?.since ?? now) > IDLE_MS)
      void this.#idle.shift()?.line.close()
    if (this.size > 0) this.#sweep = this.#clock.timer(SWEEP_MS, () => this.#sweepOnce())
  }
}
