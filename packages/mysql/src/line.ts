import type { Line as AnyLine } from '@locks/sql'
import { createConnection } from 'mysql2'
import type { Connection, ConnectionOptions } from 'mysql2'
import { Socket } from 'node:net'
import { faults } from './errors.ts'

/** A value as text: the program may have changed how mysql2 reads types. */
export type Cell = string | undefined

export type Values = readonly (string | number | Buffer | null)[]

export interface Result {
  readonly rows: readonly (readonly Cell[])[]
  readonly affected: number
  readonly insertId: bigint
}

const CONNECT_TIMEOUT_MS = 5_000
const SET_UP_TIMEOUT_MS = 10_000
/** The system would ask after a connection that died silently only when it has been idle for hours. */
const KEEP_ALIVE_DELAY_MS = 10_000

/** The two ways to run a statement: prepared with its values, or as it stands. */
type Reply = (error: Error | null, result?: unknown) => void

/** Rows as arrays of text, however the program's own pool would have them. */
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

/** One connection of the adapter's own. */
export class Line implements AnyLine {
  readonly #connection: Connection
  readonly #stream: Socket | undefined
  #onEnd: (() => void) | undefined
  #ended = false
  #asked = 0
  busySince: number | undefined
  /** What the server calls it. */
  thread: number = 0
  /** After how many idle seconds the server ends it. */
  waitTimeoutS: number = Infinity

  private constructor(connection: Connection) {
    this.#connection = connection
    const stream: unknown = 'stream' in connection ? connection.stream : undefined
    this.#stream = stream instanceof Socket ? stream : undefined
    // An error of a connection is its end; statements under way are told by themselves. The connection reports an error
    // of its socket to those alone, and that nothing more will come only when the socket is closed, which is later.
    connection.on('error', () => this.#end())
    for (const event of ['error', 'end', 'close']) this.#stream?.once(event, () => this.#end())
  }

  /** Gives up when `closing` is aborted. */
  static async open(
    config: ConnectionOptions,
    setUp: readonly string[],
    closing?: AbortSignal,
  ): Promise<Line> {
    const connection = createConnection({
      ...config,
      connectTimeout: CONNECT_TIMEOUT_MS,
      enableKeepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_DELAY_MS,
      charset: 'utf8mb4',
    })
    const line = new Line(connection)
    // A server may accept a connection and then fall silent.
    const giveUp = (): void => line.destroy()
    const timer = setTimeout(giveUp, SET_UP_TIMEOUT_MS)
    timer.unref()
    closing?.addEventListener('abort', giveUp)
    try {
      await new Promise<void>((resolve, reject) =>
        connection.connect((error) => (error ? reject(error) : resolve())),
      )
      for (const text of setUp) await line.query(text)
      const { rows } = await line.query('SELECT CONNECTION_ID(), @@SESSION.wait_timeout')
      const [thread, waitTimeoutS] = rows[0] ?? []
      line.thread = Number(thread)
      line.waitTimeoutS = Number(waitTimeoutS)
    } catch (error) {
      line.destroy()
      throw error
    } finally {
      clearTimeout(timer)
      closing?.removeEventListener('abort', giveUp)
    }
    return line
  }

  get idleLimitMs(): number {
    return this.waitTimeoutS * 1_000
  }

  get ended(): boolean {
    return this.#ended
  }

  query(text: string, values: Values = []): Promise<Result> {
    return new Promise((resolve, reject) => {
      // What is sent on a socket that is closed gets no answer, not even an error.
      if (this.#ended) return reject(new Error('the connection was ended'))
      const reply: Reply = (error, result) => (error ? reject(error) : resolve(resultOf(result)))
      const options = { ...asText, sql: text }
      if (values.length === 0) this.#connection.query(options, reply)
      else this.#connection.execute(options, [...values], reply)
    })
  }

  /**
   * The one row of a statement that takes a nonce as its first value and returns it as its first column, which is left
   * out here. mysql2 pairs replies with statements by their order: on a connection that answers another statement than
   * the one sent, nothing can be relied on.
   */
  async ask(text: string, values: Values = []): Promise<readonly Cell[]> {
    return (await this.find(text, values)) ?? this.#mixedUp()
  }

  /** The same for a statement that may find no row. That it found none is proven by what is asked next. */
  async find(text: string, values: Values = []): Promise<readonly Cell[] | undefined> {
    const nonce = String((this.#asked += 1))
    const { rows } = await this.query(text, [nonce, ...values])
    const [answered, ...row] = rows[0] ?? []
    if (rows.length === 0) return undefined
    return answered === nonce ? row : this.#mixedUp()
  }

  #mixedUp(): never {
    this.destroy()
    throw faults.unavailable('the server answered another statement than the one sent')
  }

  onEnd(done: (() => void) | undefined): void {
    this.#onEnd = done
  }

  keepAlive(yes: boolean): void {
    // A socket without a handle would wait for one, with a listener for each call.
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
      this.#connection.end(done)
    })
    await gone
    this.destroy()
  }

  destroy(): void {
    this.#onEnd = undefined
    this.#ended = true
    // Its own destroy would leave statements under way without an answer, for ever.
    if (this.#stream === undefined) this.#connection.destroy()
    else this.#stream.destroy()
  }

  #end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#onEnd?.()
  }
}
