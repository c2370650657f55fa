import { Connection } from '@locks/sql'
import { Socket } from 'node:net'
import { Client } from 'pg'
import type { ClientConfig } from 'pg'
import { errors } from './errors.ts'

/** A statement, and the name to prepare it under; undefined where preparing is not worth it. */
export interface Statement {
  readonly name: string | undefined
  readonly text: string
}

/** Values as the server writes them: the program may have changed how `pg` parses types. */
export type Row = readonly (string | null)[]

export interface OpenOptions {
  /** Whether statements are prepared by name, which does not work through PgBouncer. */
  readonly named?: boolean
  /** Whether statements are sent without waiting for earlier answers. */
  readonly pipeline?: boolean
  /** Stops the opening when it aborts. */
  readonly closing?: AbortSignal
}

/** Overrides the settings of the program's pool: connecting is bounded, and no wait for a lock is cut short. */
const ours = { connectionTimeoutMillis: 5_000, query_timeout: 0 } as const

/** By default the system probes an idle connection only after hours. */
const keepAlive = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 } as const

const asWritten = { getTypeParser: () => (text: string) => text }

/** Runs one statement on any client of `pg`. */
export async function send(
  client: Pick<Client, 'query'>,
  { name, text }: Statement,
  values: unknown[],
  named: boolean,
): Promise<readonly Row[]> {
  const query = { text, values, rowMode: 'array' as const, types: asWritten }
  const { rows } = await client.query<(string | null)[]>(
    named && name !== undefined ? { ...query, name } : query,
  )
  return rows
}

/** One connection that the adapter opened. */
export class PostgresConnection extends Connection {
  readonly #client: Client
  readonly #named: boolean
  /** The backend that answers, once known. */
  pid: number | undefined
  /** How long the server tolerates an idle transaction on it, once set. */
  silenceMs: number | undefined
  /** The transaction that holds a lock on it, if any. */
  transaction: string | undefined

  private constructor(client: Client, named: boolean) {
    super(errors)
    this.#client = client
    this.#named = named
    // An error ends the connection. Statements under way fail by themselves.
    client.on('error', () => this.over())
    client.on('end', () => this.over())
  }

  static open(
    config: ClientConfig,
    { named = true, pipeline = false, closing }: OpenOptions = {},
  ): Promise<PostgresConnection> {
    const client = new Client({ ...keepAlive, ...config, ...ours, pipeline })
    return new PostgresConnection(client, named).opened(closing, () => client.connect())
  }

  /** The backend that was announced. A pooler announces another one than the one that answers. */
  get announcedPid(): number | undefined {
    return 'processID' in this.#client && typeof this.#client.processID === 'number'
      ? this.#client.processID
      : undefined
  }

  query(statement: Statement, values: unknown[] = []): Promise<readonly Row[]> {
    return send(this.#client, statement, values, this.#named)
  }

  /** The one row of a statement that takes a nonce as its last value and returns it as its first column. */
  async ask(statement: Statement, values: unknown[] = []): Promise<Row> {
    return (await this.checked((nonce) => this.query(statement, [...values, nonce]))) ?? this.mixedUp()
  }

  /** Sends the statements of `sends` in one packet, so that the server wakes up once. */
  together<T>(sends: () => T): T {
    this.socket?.cork()
    try {
      return sends()
    } finally {
      this.socket?.uncork()
    }
  }

  onNotification(received: (payload: string) => void): void {
    this.#client.on('notification', ({ payload }) => received(payload ?? ''))
  }

  protected override get socket(): Socket | undefined {
    const { stream } = this.#client.connection
    return stream instanceof Socket ? stream : undefined
  }

  protected override end(): Promise<unknown> {
    return this.#client.end()
  }

  protected override cut(): void {
    this.#client.connection.stream.destroy()
  }
}
