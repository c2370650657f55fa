import { createConnection } from 'mysql2'
import type { Connection, ConnectionOptions } from 'mysql2'
import { Socket } from 'node:net'

/** A value as text: the program may have changed how mysql2 reads types. */
export type Cell = string | undefined

export interface Result {
  readonly rows: readonly (readonly Cell[])[]
  readonly affected: number
  readonly insertId: bigint
}

const CONNECT_TIMEOUT_MS = 5_000

/** The two ways to run a statement: prepared with its values, or as it stands. */
type Reply = (error: Error | null, result?: unknown) => void

export function read(result: unknown): Result {
  if (Array.isArray(result)) return { rows: result.map(cells), affected: 0, insertId: 0n }
  const header: object = typeof result === 'object' && result !== null ? result : {}
  const affected = 'affectedRows' in header ? Number(header.affectedRows) : 0
  const insertId = 'insertId' in header ? BigInt(String(header.insertId)) : 0n
  return { rows: [], affected, insertId }
}

/** A pool of the program's own may give rows as objects; their keys are in the order of the columns. */
function cells(row: unknown): Cell[] {
  if (typeof row !== 'object' || row === null) return []
  const values: unknown[] = Array.isArray(row) ? row : Object.values(row)
  return values.map(cell)
}

function cell(value: unknown): Cell {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'bigint') return String(value)
  return Buffer.isBuffer(value) ? value.toString() : undefined
}

/** One connection of the adapter's own. */
export class Line {
  readonly #connection: Connection
  readonly #stream: Socket | undefined
  #onEnd: (() => void) | undefined
  #ended = false
  /** Since when a statement that should be short has been under way. */
  busySince: number | undefined
  /** What the server calls it. */
  thread: number = 0
  /** After how many idle seconds the server ends it. */
  waitTimeoutS: number = Infinity

  private constructor(connection: Connection) {
    this.#connection = connection
    const stream: unknown = 'stream' in connection ? connection.stream : undefined
    this.#stream = stream instanceof Socket ? stream : undefined
    // An error of a connection is its end; statements under way are told by themselves.
    connection.on('error', () => this.#end())
    this.#stream?.once('close', () => this.#end())
  }

  static async open(config: ConnectionOptions, ...setUp: readonly string[]): Promise<Line> {
    const connection = createConnection({
      ...config,
      connectTimeout: CONNECT_TIMEOUT_MS,
      enableKeepAlive: true,
      charset: 'utf8mb4',
      rowsAsArray: true,
      supportBigNumbers: true,
      bigNumberStrings: true,
    })
    const line = new Line(connection)
    try {
      await new Promise<void>((resolve, reject) =>
        connection.connect((error) => (error ? reject(error) : resolve())),
      )
      for (const text of setUp) await line.query(text)
      const { rows } = await line.query('SELECT CONNECTION_ID()')
      line.thread = Number(rows[0]?.[0])
    } catch (error) {
      line.destroy()
      throw error
    }
    return line
  }

  get ended(): boolean {
    return this.#ended
  }

  query(text: string, values: readonly (string | number | Buffer | null)[] = []): Promise<Result> {
    return new Promise((resolve, reject) => {
      const reply: Reply = (error, result) => (error ? reject(error) : resolve(read(result)))
      if (values.length === 0) this.#connection.query(text, reply)
      else this.#connection.execute(text, [...values], reply)
    })
  }

  /** Calls `done` when the connection ends by itself. */
  onEnd(done: (() => void) | undefined): void {
    this.#onEnd = done
  }

  /** Whether an open socket keeps the process alive. */
  keepAlive(yes: boolean): void {
    if (yes) this.#stream?.ref()
    else this.#stream?.unref()
  }

  /** Says goodbye. Never waits for long, never rejects. */
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
    this.#connection.destroy()
    this.#stream?.destroy()
  }

  #end(): void {
    if (this.#ended) return
    this.#ended = true
    this.#onEnd?.()
  }
}
