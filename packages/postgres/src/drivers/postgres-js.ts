import { connect, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import postgres from 'postgres'
import { errors, isRefusal } from '../errors.ts'
import type { ConnectOptions, Driver, DriverConnection, Row, Statement, Target } from './driver.ts'
import { placesOf } from './postgres-js-places.ts'
import type { Place } from './postgres-js-places.ts'
import { textOf, textTypes } from './postgres-js-values.ts'
import { Replication } from './replication.ts'

/** Where the library connects to, as it read its options. */
interface Parsed {
  readonly host: readonly string[]
  readonly port: readonly number[]
  readonly path?: string | false
}

function ignore(): void {}

/**
 * The library connects again whenever it has a statement to send. Here it gets one socket only: a second connection
 * would be another session, without the transaction and without LISTEN.
 */
class PostgresJsConnection implements DriverConnection {
  readonly #target: Target
  readonly #ended: () => void
  /** Fail the statements under way. The library leaves those that it has not sent yet unanswered. */
  readonly #pending = new Set<(error: Error) => void>()
  readonly #replication = new Replication()
  #sql: postgres.Sql | undefined
  #socket: Duplex | undefined
  #received: (payload: string) => void = ignore
  #isOpen = false
  #isCut = false
  announcedPid: number | undefined

  constructor(target: Target, { ended }: ConnectOptions) {
    this.#target = target
    this.#ended = ended
  }

  async open(): Promise<void> {
    const failures: unknown[] = []
    for (const place of placesOf(this.#target))
      try {
        return await this.#openAt(place)
      } catch (error) {
        failures.push(error)
        this.#socket?.destroy()
        if (this.#isCut) break
      }
    // A refusal is final only if every server gives one: another server may take over.
    throw (
      failures.find((failure) => errors.toLockError(failure).code === 'LOCK_UNAVAILABLE') ?? failures.at(-1)
    )
  }

  async #openAt({ url, settings, socket, pass }: Place): Promise<void> {
    const password = pass && { pass: await this.#answered(pass) }
    if (this.#isCut) throw closedError()
    let connects = 0
    const options = {
      ...settings,
      ...password,
      max: 1,
      idle_timeout: 0,
      max_lifetime: null,
      fetch_types: false,
      types: textTypes,
      transform: {},
      // Without it the library keeps something of every statement that failed, for as long as the process lives.
      debug: true,
      onnotice: this.#replication.noticed,
      onnotify: (_channel: string, payload: string) => this.#received(payload),
      onclose: () => {
        // Not of the server tried before, whose socket closes when the next one is tried.
        if (this.#sql === sql) this.#over()
      },
      socket: async (parsed: Parsed) => {
        if ((connects += 1) > 1 || this.#isCut) throw closedError()
        return this.#watched(socket === undefined ? connectTo(parsed) : await socket(parsed))
      },
    }
    const sql = url === undefined ? postgres(options) : postgres(url, options)
    this.#sql = sql
    const { state } = await this.#answered(() => sql.unsafe('SELECT 1'))
    this.announcedPid = state.pid
    // With TLS the library has removed the listeners of this socket.
    this.#socket?.on('error', ignore)
    this.#isOpen = true
  }

  #watched(socket: Duplex): Duplex {
    this.#socket = socket.on('error', ignore)
    if (this.#isCut) socket.destroy()
    return socket
  }

  async query({ name, text }: Statement, values: unknown[], named: boolean): Promise<readonly Row[]> {
    const sql = this.#sql
    if (sql === undefined || !this.#isOpen) throw closedError()
    const options = { prepare: named && name !== undefined }
    const rows: readonly (readonly (Buffer | null)[])[] = await this.#answered(() =>
      sql.unsafe(text, values.map(textOf), options).raw(),
    )
    // After a statement that failed, the library leaves a hole in the next reply for each row that had arrived.
    return this.#replication.checked(rows).flatMap((row) => [row.map((cell) => cell?.toString() ?? null)])
  }

  /** Anything but a refusal by the server ends the connection: the library may be out of step with the replies. */
  #answered<T>(send: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const fail = (error: Error): void => {
        this.#pending.delete(fail)
        reject(error)
      }
      this.#pending.add(fail)
      send().then(
        (result) => {
          this.#pending.delete(fail)
          resolve(result)
        },
        (error: unknown) => {
          fail(error instanceof Error ? error : closedError())
          if (this.#isOpen && !isRefusal(error)) this.cut()
        },
      )
    })
  }

  /** The library itself sends the statements of one turn of the event loop together. */
  together<T>(sends: () => T): T {
    return sends()
  }

  onNotification(received: (payload: string) => void): void {
    this.#received = received
  }

  get socket(): Socket | undefined {
    return this.#socket instanceof Socket ? this.#socket : undefined
  }

  async end(): Promise<void> {
    await this.#sql?.end({ timeout: 1 })
  }

  cut(): void {
    this.#isCut = true
    this.#socket?.destroy()
    this.#over()
  }

  #over(): void {
    const wasOpen = this.#isOpen
    this.#isOpen = false
    for (const fail of this.#pending) fail(closedError())
    if (wasOpen) this.#ended()
  }
}

function closedError(): Error {
  return Object.assign(new Error('the connection was closed'), { code: 'CONNECTION_CLOSED' })
}

/** Returned before it is connected: the time limit of the library then counts from here. */
function connectTo({ host: [host], port: [port], path }: Parsed): Duplex {
  if (typeof path === 'string') return connect({ path })
  if (port === undefined) throw closedError()
  const socket = connect({ host: host ?? 'localhost', port, noDelay: true })
  // The library looks here for the name that a certificate must have.
  return Object.assign(socket, { host })
}

export const driver: Driver = { connectionTo: (target, options) => new PostgresJsConnection(target, options) }
