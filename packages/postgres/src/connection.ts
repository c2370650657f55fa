import { onSilence, systemClock } from '@locks/core/adapter'
import { SILENCE_MS } from '@locks/sql'
import type { Connection } from '@locks/sql'
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
export const ours = { connectionTimeoutMillis: 5_000, query_timeout: 0 } as const

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
export class PostgresConnection implements Connection {
  readonly #client: Client
  readonly #named: boolean
  #onEnd: (() => void) | undefined
  #ended = false
  #asked = 0
  readonly idleLimitMs: number = Infinity
  busySince: number | undefined
  /** The backend that answers, once known. */
  pid: number | undefined
  /** How long the server tolerates an idle transaction on it, once set. */
  silenceMs: number | undefined
  /** The transaction that holds a lock on it, if any. */
  transaction: string | undefined

  private constructor(client: Client, named: boolean) {
    this.#client = client
    this.#named = named
    const end = (): void => {
      if (this.#ended) return
      this.#ended = true
      this.#onEnd?.()
    }
    // An error ends the connection. Statements under way fail by themselves.
    client.on('error', end)
    client.on('end', end)
  }

  static async open(
    config: ClientConfig,
    { named = true, pipeline = false, closing }: OpenOptions = {},
  ): Promise<PostgresConnection> {
    closing?.throwIfAborted()
    const client = new Client({ ...keepAlive, ...config, ...ours, pipeline })
    const connection = new PostgresConnection(client, named)
    const giveUp = (): void => connection.destroy()
    closing?.addEventListener('abort', giveUp)
    try {
      await client.connect()
    } catch (error) {
      connection.destroy()
      throw error
    } finally {
      closing?.removeEventListener('abort', giveUp)
    }
    return connection
  }

  get ended(): boolean {
    return this.#ended
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

  /**
   * The one row of a statement that takes a nonce as its last value and returns it as its first column, which is left
   * out here. `pg` pairs replies with statements by their order, so a connection whose reply has another nonce is out
   * of step, and is closed.
   */
  async ask(statement: Statement, values: unknown[] = []): Promise<Row> {
    const nonce = String((this.#asked += 1))
    const [[answered, ...row] = []] = await this.query(statement, [...values, nonce])
    if (answered === nonce) return row
    this.destroy()
    throw errors.wrongReply()
  }

  /** Sends the statements of `sends` in one packet, so that the server wakes up once. */
  together<T>(sends: () => T): T {
    const { stream } = this.#client.connection
    if (!(stream instanceof Socket)) return sends()
    stream.cork()
    try {
      return sends()
    } finally {
      stream.uncork()
    }
  }

  /** For work outside a `ConnectionPool`: fails when the server stays silent. */
  async promptly<T>(work: () => Promise<T>): Promise<T> {
    const timer = onSilence(systemClock, SILENCE_MS, () => this.destroy())
    try {
      return await work()
    } finally {
      timer.cancel()
    }
  }

  onEnd(done: (() => void) | undefined): void {
    this.#onEnd = done
  }

  onNotification(received: (payload: string) => void): void {
    this.#client.on('notification', ({ payload }) => received(payload ?? ''))
  }

  keepAlive(yes: boolean): void {
    const { stream } = this.#client.connection
    // A socket without a handle would add a listener for each call.
    if (stream instanceof Socket && !stream.destroyed) void (yes ? stream.ref() : stream.unref())
  }

  async close(): Promise<void> {
    this.#onEnd = undefined
    if (this.#ended) return
    const gone = new Promise<void>((resolve) => this.#client.once('end', () => resolve()))
    const timer = setTimeout(() => this.destroy(), 1_000)
    timer.unref()
    this.#client.end().catch(() => this.destroy())
    await gone
    clearTimeout(timer)
  }

  destroy(): void {
    this.#onEnd = undefined
    this.#ended = true
    this.#client.connection.stream.destroy()
  }
}
