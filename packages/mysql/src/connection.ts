import { Connection } from '@locks/sql'
import { createConnection } from 'mysql2'
import type { Connection as Client, ConnectionOptions } from 'mysql2'
import { Socket } from 'node:net'
import { errors } from './errors.ts'

/** A value as text: the program may have changed how mysql2 parses types. */
export type Cell = string | undefined

export type Values = readonly (string | number | Buffer | null)[]

export interface Result {
  readonly rows: readonly (readonly Cell[])[]
  readonly affected: number
  readonly insertId: bigint
}

const CONNECT_TIMEOUT_MS = 5_000
/** By default the system probes an idle connection only after hours. */
const KEEP_ALIVE_DELAY_MS = 10_000

type Reply = (error: Error | null, result?: unknown) => void

/** Rows as arrays of text, even if the program's pool is set to objects. */
export const asText = {
  rowsAsArray: true,
  nestTables: false,
  typeCast: true,
  supportBigNumbers: true,
  bigNumberStrings: true,
} as const

export function resultOf(result: unknown): Result {
  if (Array.isArray(result)) return { rows: result.map(cells), affected: 0, insertId: 0n }
  const header: object = typeof result === 'object' && result !== null ? result : {}
  const affected = 'affectedRows' in header ? Number(header.affectedRows) : 0
  const insertId = 'insertId' in header ? BigInt(String(header.insertId)) : 0n
  return { rows: [], affected, insertId }
}

function cells(row: unknown): Cell[] {
  return Array.isArray(row) ? row.map(cell) : []
}

function cell(value: unknown): Cell {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'bigint') return String(value)
  return Buffer.isBuffer(value) ? value.toString() : undefined
}

/** One connection that the adapter opened. */
export class MysqlConnection extends Connection {
  readonly #client: Client
  protected override readonly socket: Socket | undefined
  /** The number that the server gave it. */
  thread: number = 0

  private constructor(client: Client) {
    super(errors)
    this.#client = client
    const stream: unknown = 'stream' in client ? client.stream : undefined
    this.socket = stream instanceof Socket ? stream : undefined
    // An error ends the connection. Statements under way fail by themselves. The socket is watched too: mysql2 reports
    // its errors to those statements alone, and its end only once it is closed, which is later.
    client.on('error', () => this.over())
    for (const event of ['error', 'end', 'close']) this.socket?.once(event, () => this.over())
  }

  /** Gives up when `closing` is aborted. */
  static open(
    config: ConnectionOptions,
    setUp: readonly string[],
    closing?: AbortSignal,
  ): Promise<MysqlConnection> {
    const client = createConnection({
      ...config,
      connectTimeout: CONNECT_TIMEOUT_MS,
      enableKeepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_DELAY_MS,
      charset: 'utf8mb4',
    })
    const connection = new MysqlConnection(client)
    return connection.opened(closing, async () => {
      await new Promise<void>((resolve, reject) =>
        client.connect((error) => (error ? reject(error) : resolve())),
      )
      for (const text of setUp) await connection.query(text)
      const { rows } = await connection.query('SELECT CONNECTION_ID(), @@SESSION.wait_timeout')
      const [thread, waitTimeoutS] = rows[0] ?? []
      connection.thread = Number(thread)
      connection.idleLimitMs = Number(waitTimeoutS) * 1_000
    })
  }

  query(text: string, values: Values = []): Promise<Result> {
    return new Promise((resolve, reject) => {
      // A statement on a closed socket gets no answer, not even an error.
      if (this.ended) return reject(new Error('the connection has ended'))
      const reply: Reply = (error, result) => (error ? reject(error) : resolve(resultOf(result)))
      const options = { ...asText, sql: text }
      if (values.length === 0) this.#client.query(options, reply)
      else this.#client.execute(options, [...values], reply)
    })
  }

  /** The one row of a statement that takes a nonce as its first value and returns it as its first column. */
  async ask(text: string, values: Values = []): Promise<readonly Cell[]> {
    return (await this.find(text, values)) ?? this.mixedUp()
  }

  /** The same for a statement that may find no row. */
  find(text: string, values: Values = []): Promise<readonly Cell[] | undefined> {
    return this.checked(async (nonce) => (await this.query(text, [nonce, ...values])).rows)
  }

  protected override end(): Promise<unknown> {
    return new Promise((resolve) => this.#client.end(resolve))
  }

  protected override cut(): void {
    // The client's own destroy would leave statements under way unanswered forever.
    if (this.socket === undefined) this.#client.destroy()
    else this.socket.destroy()
  }
}
