import { Socket } from 'node:net'
import { Client } from 'pg'
import type { ConnectOptions, Driver, DriverConnection, Row, Statement, Target } from './driver.ts'
import { connectTimeoutS } from './connect-timeout.ts'
import { send } from './pg-send.ts'
import { Replication } from './replication.ts'

/** Overrides the settings of the program's pool: no wait for a lock is cut short. */
const ours = { query_timeout: 0 } as const

/** By default the system probes an idle connection only after hours. */
const keepAlive = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 } as const

class PgConnection implements DriverConnection {
  readonly #client: Client
  readonly #replication = new Replication()

  constructor(target: Target, { pipeline, ended }: ConnectOptions) {
    const config = 'url' in target ? { connectionString: target.url } : target.like
    const timeoutS = connectTimeoutS('url' in target ? new URL(target.url) : undefined)
    const connectionTimeoutMillis = timeoutS * 1_000
    this.#client = new Client({ ...keepAlive, ...config, ...ours, connectionTimeoutMillis, pipeline })
    // An error ends the connection, whose socket may still be open. Statements under way fail by themselves.
    this.#client.on('error', () => {
      this.cut()
      ended()
    })
    this.#client.on('end', ended)
    this.#client.on('notice', this.#replication.noticed)
  }

  open(): Promise<unknown> {
    return this.#client.connect()
  }

  get announcedPid(): number | undefined {
    return 'processID' in this.#client && typeof this.#client.processID === 'number'
      ? this.#client.processID
      : undefined
  }

  async query(statement: Statement, values: unknown[], named: boolean): Promise<readonly Row[]> {
    return this.#replication.checked(await send(this.#client, statement, values, named))
  }

  together<T>(sends: () => T): T {
    const { socket } = this
    socket?.cork()
    try {
      return sends()
    } finally {
      socket?.uncork()
    }
  }

  onNotification(received: (payload: string) => void): void {
    this.#client.on('notification', ({ payload }) => received(payload ?? ''))
  }

  get socket(): Socket | undefined {
    const { stream } = this.#client.connection
    return stream instanceof Socket ? stream : undefined
  }

  end(): Promise<unknown> {
    return this.#client.end()
  }

  cut(): void {
    this.#client.connection.stream.destroy()
  }
}

export const driver: Driver = { connectionTo: (target, options) => new PgConnection(target, options) }
