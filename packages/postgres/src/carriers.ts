import { Wake } from '@locks/core/adapter'
import type { Clock, Timer } from '@locks/core/adapter'
import type { ConnectionPool } from '@locks/sql'
import { Carrier } from './carrier.ts'
import type { CarrierShare } from './carrier.ts'
import type { PostgresConnection } from './connection.ts'

/** How many holds one connection carries before another one is opened, if there may be more. */
const LOAD = 64
/** How long an attempt that may wait waits for a free connection. */
const CONNECTION_WAIT_MS = 4_000

/** The connections on which a client tries, waits for and holds its locks. */
export class Carriers {
  readonly #pool: ConnectionPool<PostgresConnection>
  readonly #clock: Clock
  readonly #all = new Set<Carrier>()
  /** Tries under way, by lock. */
  readonly #tries = new Map<string, Promise<unknown>>()
  readonly #holding = new Set<CarrierShare>()
  #opening: Promise<void> | undefined
  /** Woken when a try that waits for a connection may get one sooner than its place in the pool's queue. */
  readonly #waiting = new Set<Wake>()
  #expiry: Timer | undefined
  #expiresAt = Infinity

  constructor(pool: ConnectionPool<PostgresConnection>, clock: Clock) {
    this.#pool = pool
    this.#clock = clock
  }

  /** The backends of connections that this client considers alive. */
  get pids(): number[] {
    return [...this.#all].flatMap(({ pid }) => (pid === undefined ? [] : [pid]))
  }

  /** Whether this client has an attempt for the lock that holds it, or waits for it. */
  has(lock: string): boolean {
    return [...this.#all].some((carrier) => carrier.has(lock))
  }

  /**
   * Runs one try on a connection that has no other attempt for the lock. Tries for one lock follow each other, so that
   * each of them knows which connections have it. Undefined where another attempt of this client has it or waits for
   * it, and there is no further connection to try it on.
   */
  async trying<T>(
    lock: string,
    willWait: boolean,
    work: (carrier: Carrier) => Promise<T>,
  ): Promise<T | undefined> {
    let opened = false
    for (;;) {
      const before = this.#tries.get(lock)
      if (before !== undefined) {
        await before
        continue
      }
      const carrier = this.#freeFor(lock)
      if (carrier === undefined) {
        if (this.#pool.full && this.has(lock)) return undefined
        await this.#room(willWait)
        opened = true
        continue
      }
      // From here to the reservation by `work` nothing else runs.
      const trying = work(carrier)
      // Another connection may have become fit, and be preferred to the one that was opened.
      if (opened) this.#giveBackUnused()
      const over = trying.then(
        () => this.#tries.delete(lock),
        () => this.#tries.delete(lock),
      )
      this.#tries.set(lock, over)
      return await trying
    }
  }

  /** A connection for one waiter. It has nothing else until that waiter has released its lock. */
  async alone(): Promise<Carrier> {
    return this.#carrier(await this.#pool.take(CONNECTION_WAIT_MS), true)
  }

  /** While another attempt keeps the connection alive, the server does not end a hold that is not renewed. */
  expires(share: CarrierShare): void {
    this.#holding.add(share)
    if (share.silentUntil < this.#expiresAt) this.#setExpiry()
  }

  expiresNoMore(share: CarrierShare): void {
    this.#holding.delete(share)
  }

  close(): void {
    this.#expiry?.cancel()
    for (const carrier of this.#all) carrier.end()
  }

  /** The fullest connection below the limit. Beyond it the emptiest, if there may not be another connection. */
  #freeFor(lock: string): Carrier | undefined {
    const fit = [...this.#all].filter((one) => !one.alone && !one.stuck && !one.has(lock))
    const roomy = fit.filter(({ load }) => load < LOAD).toSorted((a, b) => b.load - a.load)
    if (roomy[0] !== undefined) return roomy[0]
    return this.#pool.full ? fit.toSorted((a, b) => a.load - b.load)[0] : undefined
  }

  /** Until there may be a connection for a try. */
  async #room(willWait: boolean): Promise<void> {
    if (this.#opening !== undefined || !this.#pool.full) {
      this.#opening ??= this.#openOne(CONNECTION_WAIT_MS).finally(() => (this.#opening = undefined))
      return this.#opening
    }
    // One that does not wait finds out at once that there is no connection left.
    const opened = this.#openOne(willWait ? CONNECTION_WAIT_MS : 0)
    const wake = new Wake(this.#clock)
    this.#waiting.add(wake)
    const unneeded = (): void => {
      if (!this.#waiting.has(wake)) this.#giveBackUnused()
    }
    // A failure matters only while the try waits for it, which is below.
    opened.then(unneeded, () => undefined)
    try {
      await Promise.race([opened, wake.sleep(Infinity)])
    } finally {
      this.#waiting.delete(wake)
      wake.wake()
    }
  }

  async #openOne(waitMs: number): Promise<void> {
    this.#carrier(await this.#pool.take(waitMs), false)
    this.#wake()
  }

  #wake(): void {
    for (const wake of this.#waiting) wake.wake()
  }

  #giveBackUnused(): void {
    for (const one of this.#all) if (!one.alone) one.settle()
  }

  #carrier(connection: PostgresConnection, alone: boolean): Carrier {
    const carrier = new Carrier(connection, this.#pool, this.#clock, alone, {
      done: (one) => void this.#all.delete(one),
      recovered: () => this.#wake(),
    })
    this.#all.add(carrier)
    return carrier
  }

  #setExpiry(): void {
    this.#expiry?.cancel()
    this.#expiresAt = Math.min(Infinity, ...[...this.#holding].map(({ silentUntil }) => silentUntil))
    if (this.#expiresAt === Infinity) return
    this.#expiry = this.#clock.timer(Math.max(1, this.#expiresAt - this.#clock.now()), () => {
      const now = this.#clock.now()
      for (const share of this.#holding) if (share.silentUntil <= now) share.lost()
      this.#setExpiry()
    })
  }
}
