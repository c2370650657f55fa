import type { Connection } from '@locks/sql'
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
const SET_UP_TIMEOUT_MS = 10_000
/** By default the system probes an idle connection only after hours. */
const KEEP_ALIVE_DELAY_MS = 10_000

type Reply = (error: Error | null, result?: unknown) => void

/** Rows as arrays of text, whatever the program's pool is set to. */
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
export class MysqlConnection implements Connection {
  readonly #client: Client
  readonly #stream: Socket | undefined
  #onEnd: (() => void) | undefined
  #ended = false
  #asked = 0
  busySince: number | undefined
  /** The number that the server gave it. */
  thread: number = 0
  /** How many idle seconds the server tolerates. */
  waitTimeoutS: number = Infinity

  private constructor(client: Client) {
    this.#client = client
    const stream: unknown = 'stream' in client ? client.stream : undefined
    this.#stream = stream instanceof Socket ? stream : undefined
    // An error ends the connection. Statements under way fail by themselves. The socket is watched too: mysql2 reports
    // its errors to those statements alone, and its end only once it is closed, which is later.
    client.on('error', () => this.#end())
    for (const event of ['error', 'end', 'close']) this.#stream?.once(event, () => this.#end())
  }

  /** Gives up when `closing` is aborted. */
  static async open(
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
    // A server may accept a connection and then fall silent.
    const giveUp = (): void => connection.destroy()
    const timer = setTimeout(giveUp, SET_UP_TIMEOUT_MS)
    timer.unref()
    closing?.addEventListener('abort', giveUp)
    try {
      await new Promise<void>((resolve, reject) =>
        client.connect((error) => (error ? reject(error) : resolve())),
      )
      for (const text of setUp) await connection.query(text)
      const { rows } = await connection.query('SELECT CONNECTION_ID(), @@SESSION.wait_timeout')
      const [thread, waitTimeoutS] = rows[0] ?? []
      connection.thread = Number(thread)
      connection.waitTimeoutS = Number(waitTimeoutS)
    } catch (error) {
      connection.destroy()
      throw error
    } finally {
      clearTimeout(timer)
      closing?.removeEventListener('abort', giveUp)
    }
    return connection
  }

  get idleLimitMs(): number {
    return this.waitTimeoutS * 1_000
  }

  get ended(): boolean {
    return this.#ended
  }

  query(text: string, values: Values = []): Promise<Result> {
    return new Promise((resolve, reject) => {
      // A statement on a closed socket gets no answer, not even an error.
      if (this.#ended) return reject(new Error('the connection has ended'))
      const reply: Reply = (error, result) => (error ? reject(error) : resolve(resultOf(result)))
      const options = { ...asText, sql: text }
      if (values.length === 0) this.#client.query(options, reply)
      else this.#client.execute(options, [...values], reply)
    })
  }

  /**
   * The one row of a statement that takes a nonce as its first value and returns it as its first column, which is left
   * out here. mysql2 pairs replies with statements by their order, so a connection whose reply has another nonce is out
   * of step, and is closed.
   */
  async ask(text: string, values: Values = []): Promise<readonly Cell[]> {
    return (await this.find(text, values)) ?? this.#mixedUp()
  }

  /** The same for a statement that may find no row, which the next reply on this connection then proves. */
  async find(text: string, values: Values = []): Promise<readonly Cell[] | undefined> {
    const nonce = String((this.#asked += 1))
    const { rows } = await this.query(text, [nonce, ...values])
    const [answered, ...row] = rows[0] ?? []
    if (rows.length === 0) return undefined
    return answered === nonce ? row : this.#mixedUp()
  }

  #mixedUp(): never {
    this.destroy()
    throw errors.wrongReply()
  }

  onEnd(done: (() => void) | undefined): void {
    this.#onEnd = done
  }

  keepAlive(yes: boolean): void {
    // A socket without a handle would add a listener for each call.
    if (this.#stream === undefined || this.#stream.destroyed) return
    if (yes) this.#stream.ref()
    else this.#stream.unref()
  }

  async close(): Promise<void> {
    this.#onEnd = undefined
    if (this.#ended) return
    const gone = new Promise<void>((resolve) => {
      const timer = setTimeout(done, 1_000)
      timer.unref()
      function done(): void {
        clearTimeout(timer)
        resolve()
      }
      this.#client.end(done)
    })
    await gone
    this.destroy()
  }

  destroy(): void {
    this.#onEnd = undefined
    this.#ended = true
    // The client's own destroy would leave statements under way unanswered forever.
    if (this.#stream === undefined) this.#client.destroy()
    else this.#stream.destroy()
  }

  #end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#onEnd?.()
  }
}
