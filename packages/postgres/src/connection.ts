import { Connection } from '@locks/sql'
import type { Socket } from 'node:net'
import type { DriverConnection, Row, Statement, Target } from './drivers/driver.ts'
import { driverFor } from './drivers/library.ts'
import { errors } from './errors.ts'

export type { Row, Statement } from './drivers/driver.ts'

export interface OpenOptions {
  /** Whether statements are prepared by name, which does not work through PgBouncer. */
  readonly named?: boolean
  /** Whether statements are sent without waiting for earlier answers. */
  readonly pipeline?: boolean
  /** How long a statement may wait for what another session has locked. Not set where a pooler shares the session. */
  readonly lockWaitMs?: number
  /** Stops the opening when it aborts. */
  readonly closing?: AbortSignal
}

/** One connection that the adapter opened. */
export class PostgresConnection extends Connection {
  readonly #inner: DriverConnection
  readonly #named: boolean
  /** The backend that answers, once known. */
  pid: number | undefined
  /** How long the server tolerates an idle transaction on it, once set. */
  silenceMs: number | undefined
  /** The transaction that holds a lock on it, if any. */
  transaction: string | undefined

  private constructor(connectionThat: (ended: () => void) => DriverConnection, named: boolean) {
    super(errors)
    this.#inner = connectionThat(() => this.over())
    this.#named = named
  }

  static async open(
    target: Target,
    { named = true, pipeline = false, lockWaitMs, closing }: OpenOptions = {},
  ): Promise<PostgresConnection> {
    const driver = await driverFor(target.library)
    const connection = new PostgresConnection(
      (ended) => driver.connectionTo(target, { pipeline, ended }),
      named,
    )
    return connection.opened(closing, async () => {
      await connection.#inner.open()
      if (lockWaitMs !== undefined) await connection.#limitWaits(lockWaitMs)
    })
  }

  async #limitWaits(ms: number): Promise<void> {
    const text = `SELECT set_config('lock_timeout', '${ms}', false) WHERE pg_backend_pid() = ${this.announcedPid ?? 0}`
    await this.query({ name: undefined, text })
  }

  /** The backend that was announced. A pooler announces another one than the one that answers. */
  get announcedPid(): number | undefined {
    return this.#inner.announcedPid
  }

  query(statement: Statement, values: unknown[] = []): Promise<readonly Row[]> {
    return this.#inner.query(statement, values, this.#named)
  }

  /** The one row of a statement that takes a nonce as its last value and returns it as its first column. */
  async ask(statement: Statement, values: unknown[] = []): Promise<Row> {
    return (await this.checked((nonce) => this.query(statement, [...values, nonce]))) ?? this.mixedUp()
  }

  /** Sends the statements of `sends` in one packet, so that the server wakes up once. */
  together<T>(sends: () => T): T {
    return this.#inner.together(sends)
  }

  onNotification(received: (payload: string) => void): void {
    this.#inner.onNotification(received)
  }

  protected override get socket(): Socket | undefined {
    return this.#inner.socket
  }

  protected override end(): Promise<unknown> {
    return this.#inner.end()
  }

  protected override cut(): void {
    this.#inner.cut()
  }
}
