import { LockError } from '@locks/core/adapter'
import type { AdapterHost, Clock, Timer } from '@locks/core/adapter'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { decodeReply, encode, onLines } from './wire.ts'
import type { Call, Reply } from './wire.ts'

/** A request that finds no server for this long fails. One that a server leaves unanswered stays. */
const GIVE_UP_MS = 3_000
const RECONNECT_MS = { first: 20, most: 320 }
const HELLO = 0

export interface Address {
  readonly host: string
  readonly port: number
}

export interface Answer {
  readonly value: unknown
  /** More than 1: an earlier sending may have been served too. */
  readonly sends: number
}

export interface Exchange {
  readonly answer: Promise<Answer | 'cancelled'>
  readonly cancel: () => void
}

interface Pending {
  readonly call: Call
  readonly settle: (answer: Answer | 'cancelled') => void
  readonly fail: (error: LockError) => void
  sends: number
  sentAt: number
  /** Since when there is no server for it. */
  strandedAt: number | undefined
}

/**
 * The one connection of a client: opened by the first request, reopened while requests are pending.
 * A request whose reply went down with a connection is sent again as it was. It never keeps the
 * process alive: core does while a caller waits, and a server that hangs must not.
 */
export class Link {
  readonly #address: Address
  readonly #clientId: string
  readonly #clock: Clock
  readonly #pending = new Map<number, Pending>()
  #ids = HELLO
  #connections = 0
  #failures = 0
  #socket: Socket | undefined
  #reconnect: Timer | undefined
  #failure: Error | undefined
  /** The last exchange on both clocks: the store read its own at our `localMs` or later. */
  #sync: { readonly localMs: number; readonly storeMs: number } | undefined
  #closed = false

  constructor(address: Address, { clientId, clock }: AdapterHost) {
    this.#address = address
    this.#clientId = clientId
    this.#clock = clock
  }

  call(call: Call): Exchange {
    const id = ++this.#ids
    const answer = new Promise<Answer | 'cancelled'>((settle, fail) => {
      if (this.#closed) return fail(closedError())
      const pending = { call, settle, fail, sends: 0, sentAt: 0, strandedAt: this.#clock.now() }
      this.#pending.set(id, pending)
      if (this.#socket?.readyState === 'open') this.#send(this.#socket, id, pending)
      else if (this.#socket === undefined && this.#reconnect === undefined) this.#connect()
    })
    return { answer, cancel: () => this.#cancel(id) }
  }

  /** The earliest local time that a reading of the store's clock can mean; undefined before any exchange. */
  toLocal(storeMs: number): number | undefined {
    return this.#sync && this.#sync.localMs + (storeMs - this.#sync.storeMs)
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#reconnect?.cancel()
    for (const { fail } of this.#pending.values()) fail(closedError())
    this.#pending.clear()
    const socket = this.#socket
    if (socket === undefined) return
    const gone = new Promise((resolve) => socket.once('close', resolve))
    socket.ref()
    if (socket.connecting) socket.destroy()
    else socket.destroySoon()
    await gone
  }

  #connect(): void {
    this.#reconnect = undefined
    if (this.#pending.size === 0) return
    const socket = connect({ ...this.#address, noDelay: true }).unref()
    this.#socket = socket
    let helloAt = 0
    socket.once('connect', () => {
      helloAt = this.#clock.now()
      const args = [this.#clientId, ++this.#connections] as const
      socket.write(encode({ id: HELLO, method: 'hello', args }))
      for (const [id, pending] of this.#pending) this.#send(socket, id, pending)
    })
    onLines(socket, (line) => {
      try {
        this.#take(decodeReply(line), helloAt)
      } catch (error) {
        socket.destroy(error instanceof Error ? error : new Error(String(error)))
      }
    })
    socket.on('error', (error) => (this.#failure = error))
    socket.once('close', () => this.#lost())
  }

  #send(socket: Socket, id: number, pending: Pending): void {
    pending.sends += 1
    pending.sentAt = this.#clock.now()
    socket.write(encode({ id, ...pending.call }))
  }

  #take({ id, now, ok, error }: Reply, helloAt: number): void {
    if (id === HELLO) return this.#greeted(helloAt, now)
    const pending = this.#pending.get(id)
    if (pending === undefined) return
    this.#pending.delete(id)
    this.#sync = { localMs: pending.sentAt, storeMs: now }
    if (error === undefined) pending.settle({ value: ok, sends: pending.sends })
    else pending.fail(new LockError('LOCK_UNAVAILABLE', `the reference server failed: ${error}`))
  }

  #greeted(localMs: number, storeMs: number): void {
    this.#sync = { localMs, storeMs }
    this.#failures = 0
    this.#failure = undefined
    for (const pending of this.#pending.values()) pending.strandedAt = undefined
  }

  #lost(): void {
    this.#socket = undefined
    this.#sync = undefined
    if (this.#closed) return
    const now = this.#clock.now()
    for (const [id, pending] of this.#pending) {
      pending.strandedAt ??= now
      if (now - pending.strandedAt < GIVE_UP_MS) continue
      this.#pending.delete(id)
      pending.fail(this.#unreachable())
    }
    if (this.#pending.size === 0) return
    const delayMs = Math.min(RECONNECT_MS.first * 2 ** this.#failures++, RECONNECT_MS.most)
    this.#reconnect = this.#clock.timer(delayMs, () => this.#connect())
  }

  #cancel(id: number): void {
    const pending = this.#pending.get(id)
    if (pending === undefined) return
    this.#pending.delete(id)
    if (pending.sends > 0 && this.#socket?.readyState === 'open')
      this.#socket.write(encode({ id: ++this.#ids, method: 'cancel', args: [id] }))
    pending.settle('cancelled')
  }

  #unreachable(): LockError {
    const { host, port } = this.#address
    return new LockError('LOCK_UNAVAILABLE', `no reference server at ${host}:${port}`, {
      cause: this.#failure,
    })
  }
}

function closedError(): LockError {
  return new LockError('LOCK_CLOSED', 'the connection to the reference server was closed')
}
