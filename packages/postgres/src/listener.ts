import type { Clock } from '@locks/core/adapter'
import { randomBytes } from 'node:crypto'
import { errors } from './errors.ts'
import type { PostgresConnection } from './connection.ts'
import { readMessage } from './messages.ts'
import type { Message } from './messages.ts'
import { plain } from './sql.ts'

/** A connection that was quiet for this long is probed before a waiter relies on it. */
const QUIET_MS = 10_000

const ping = plain('SELECT 1')
/** While the connection lives it holds its key, so that other sessions see that it lives. */
const holdKey = plain('SELECT pg_advisory_lock($1::bigint)')

/** What arrives unasked. */
export interface Handlers {
  received(message: Message): void
  /** The connection is gone: messages may have been missed. */
  disconnected(): void
}

/**
 * The connection on which a client receives hand-offs. It holds its key as an advisory lock, so that a release sees at
 * once when a listener is gone.
 */
export class Listener {
  readonly #open: (closing: AbortSignal) => Promise<PostgresConnection>
  readonly #handlers: Handlers
  readonly #clock: Clock
  #current: Promise<string> | undefined
  #connection: PostgresConnection | undefined
  /** When a message last arrived, or a probe was sent. */
  #provedAt = 0
  readonly #closing = new AbortController()

  constructor(open: (closing: AbortSignal) => Promise<PostgresConnection>, handlers: Handlers, clock: Clock) {
    this.#open = open
    this.#handlers = handlers
    this.#clock = clock
  }

  /** The key of the listening connection, which is opened if needed. */
  key(): Promise<string> {
    this.#current ??= this.#start().catch((error: unknown) => {
      this.#current = undefined
      throw errors.toLockError(error)
    })
    return this.#current
  }

  /** Whether the connection is open. */
  get ready(): boolean {
    return this.#connection !== undefined
  }

  /** Before each wait: a connection that died silently would be granted locks forever. */
  prove(): void {
    const connection = this.#connection
    const now = this.#clock.now()
    if (connection === undefined || now - this.#provedAt < QUIET_MS) return
    this.#provedAt = now
    connection
      .promptly(() => connection.query(ping))
      .catch(() => {
        if (this.#connection !== connection) return
        connection.destroy()
        this.#lost()
      })
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#connection?.close()
  }

  async #start(): Promise<string> {
    const connection = await this.#open(this.#closing.signal)
    try {
      const key = String(randomBytes(8).readBigUInt64BE() >> 1n)
      connection.onNotification((payload) => this.#take(payload))
      await connection.promptly(async () => {
        await connection.query(plain(`LISTEN "locks_${key}"`))
        await connection.query(holdKey, [key])
      })
      if (connection.ended || this.#closing.signal.aborted)
        throw new Error('the listening connection ended; waiters poll until there is another')
      connection.onEnd(() => this.#lost())
      connection.keepAlive(false)
      this.#connection = connection
      this.#provedAt = this.#clock.now()
      return key
    } catch (error) {
      connection.destroy()
      throw error
    }
  }

  #lost(): void {
    this.#connection = undefined
    this.#current = undefined
    if (!this.#closing.signal.aborted) this.#handlers.disconnected()
  }

  #take(payload: string): void {
    this.#provedAt = this.#clock.now()
    const message = readMessage(payload)
    if (message !== undefined) this.#handlers.received(message)
  }
}
