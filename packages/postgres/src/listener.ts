import type { Clock } from '@locks/core/adapter'
import { randomBytes } from 'node:crypto'
import { faults } from './errors.ts'
import type { Line, Statement } from './line.ts'
import { readMessage } from './messages.ts'
import type { GrantedMessage } from './messages.ts'
import { listening } from './sql.ts'

/** A connection on which nothing was heard for this long is not relied on without asking. */
const QUIET_MS = 10_000

const ping: Statement = { name: undefined, text: 'SELECT 1' }

/** What a client is told unasked. */
export interface Heard {
  granted(message: GrantedMessage): void
  /** This waiter is now the first in line, behind a claim of that length. */
  next(tag: string, claimMs: number): void
  /** The connection is gone: anything may have been missed. */
  deaf(): void
}

/**
 * The one connection on which a client hears of hand-offs. Each connection has a key of its own and
 * holds it as an advisory lock, so that whoever hands over sees at once that a listener is gone.
 */
export class Listener {
  readonly #open: (closing: AbortSignal) => Promise<Line>
  readonly #heard: Heard
  readonly #clock: Clock
  #current: Promise<string> | undefined
  #line: Line | undefined
  /** When something was last heard, or asked for. */
  #provedAt = 0
  readonly #closing = new AbortController()

  constructor(open: (closing: AbortSignal) => Promise<Line>, heard: Heard, clock: Clock) {
    this.#open = open
    this.#heard = heard
    this.#clock = clock
  }

  /** The key of the connection that listens, which is opened if need be. */
  key(): Promise<string> {
    this.#current ??= this.#start().catch((error: unknown) => {
      this.#current = undefined
      throw faults.toLockError(error)
    })
    return this.#current
  }

  /** The same, if somebody listens already. */
  get ready(): boolean {
    return this.#line !== undefined
  }

  /** For each who is about to wait: a connection may have died without a word, and would be handed locks for ever. */
  prove(): void {
    const line = this.#line
    const now = this.#clock.now()
    if (line === undefined || now - this.#provedAt < QUIET_MS) return
    this.#provedAt = now
    line
      .promptly(() => line.query(ping))
      .catch(() => {
        if (this.#line !== line) return
        line.destroy()
        this.#lost()
      })
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#line?.close()
  }

  async #start(): Promise<string> {
    const line = await this.#open(this.#closing.signal)
    try {
      const key = String(randomBytes(8).readBigUInt64BE() >> 1n)
      const [listen, hold] = listening(key)
      line.onNotification((payload) => this.#take(payload))
      await line.promptly(async () => {
        if (listen !== undefined) await line.query(listen)
        if (hold !== undefined) await line.query(hold, [key])
      })
      if (line.ended || this.#closing.signal.aborted) throw new Error('the listening connection ended')
      line.onEnd(() => this.#lost())
      line.keepAlive(false)
      this.#line = line
      this.#provedAt = this.#clock.now()
      return key
    } catch (error) {
      line.destroy()
      throw error
    }
  }

  #lost(): void {
    this.#line = undefined
    this.#current = undefined
    if (!this.#closing.signal.aborted) this.#heard.deaf()
  }

  #take(payload: string): void {
    this.#provedAt = this.#clock.now()
    const message = readMessage(payload)
    if (message?.kind === 'granted') this.#heard.granted(message)
    else if (message?.kind === 'next') this.#heard.next(message.tag, message.claimMs)
  }
}
