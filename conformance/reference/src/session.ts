import type { AcquireRequest, Adapter, Clock, Grant } from '@locks/core/adapter'
import type { Socket } from 'node:net'
import { decodeRequest, encode, onLines } from './wire.ts'
import type { Reply, Request } from './wire.ts'

/** Sessions by client id. */
export type Sessions = Map<string, Session>

/** The server's side of one connection. */
export class Session {
  readonly #socket: Socket
  readonly #store: Adapter
  readonly #clock: Clock
  readonly #sessions: Sessions
  /** Requests with a place in the queue, or with a hold that their client was not told of. */
  readonly #untold = new Map<string, AcquireRequest>()
  readonly #waits = new Map<number, AbortController>()
  #clientId: string | undefined
  #connection = 0
  #over = false

  constructor(socket: Socket, store: Adapter, clock: Clock, sessions: Sessions) {
    this.#socket = socket
    this.#store = store
    this.#clock = clock
    this.#sessions = sessions
    socket.on('error', () => undefined) // 'close' follows and says all there is to know
    socket.once('close', () => this.end())
    onLines(socket, (line) => void this.#take(line))
  }

  /**
   * Withdraws what the client still waited for, so that no waiter queues behind a dead one. Its holds stay
   * until their ttl: it may be alive and rely on them. A client that comes back asks again.
   */
  end(): void {
    if (this.#over) return
    this.#over = true
    this.#socket.destroy()
    if (this.#clientId !== undefined && this.#sessions.get(this.#clientId) === this)
      this.#sessions.delete(this.#clientId)
    for (const request of this.#untold.values()) void this.#store.withdraw?.(request)
    for (const wait of this.#waits.values()) wait.abort()
  }

  async #take(line: string): Promise<void> {
    if (this.#over) return
    let request: Request
    try {
      request = decodeRequest(line)
    } catch {
      return this.end()
    }
    const { id } = request
    // Read before the answer is made, which may take as long as a wait: clients date grants by it.
    const now = this.#clock.now()
    try {
      this.#reply({ id, now, ok: await this.#answer(request) })
    } catch (error) {
      this.#reply({ id, now, error: error instanceof Error ? error.message : String(error) })
    }
  }

  #reply(reply: Reply): void {
    if (!this.#over) this.#socket.write(encode(reply))
  }

  async #answer(request: Request): Promise<unknown> {
    const store = this.#store
    switch (request.method) {
      case 'hello':
        return this.#hello(...request.args)
      case 'attempt':
        return this.#attempt(...request.args)
      case 'wait':
        return this.#wait(request.id, ...request.args)
      case 'cancel':
        return this.#waits.get(request.args[0])?.abort()
      case 'withdraw':
        this.#untold.delete(request.args[0].attemptId)
        return store.withdraw?.(...request.args)
      case 'renew':
        return store.renew(...request.args)
      case 'release':
        return store.release(...request.args)
      case 'adopt':
        return store.adopt?.(...request.args)
      case 'inspect':
        return store.inspect(...request.args)
    }
  }

  /** A client has one connection. Requests that are still under way on an older one must not be served late. */
  #hello(clientId: string, connection: number): void {
    const before = this.#sessions.get(clientId)
    if (before !== undefined && before.#connection >= connection) return this.end()
    before?.end()
    this.#clientId = clientId
    this.#connection = connection
    this.#sessions.set(clientId, this)
  }

  async #attempt(request: AcquireRequest): Promise<unknown> {
    this.#untold.set(request.attemptId, request)
    const answer = await this.#store.attempt(request)
    if ('fence' in answer) this.#tell(answer)
    else if (!request.willWait) this.#untold.delete(request.attemptId)
    return answer
  }

  async #wait(id: number, request: AcquireRequest, maxMs: number): Promise<unknown> {
    const controller = new AbortController()
    this.#waits.set(id, controller)
    const pushed = await this.#store.wait?.(request, maxMs, controller.signal)
    this.#waits.delete(id)
    // A cancelled wait is answered to nobody: the client does not learn of the hold by it.
    if (pushed === undefined || controller.signal.aborted) return undefined
    this.#tell(pushed)
    return pushed
  }

  /** From here on the client may have learnt that it holds; a socket known to be dead tells nobody. */
  #tell({ attemptId }: Grant): void {
    if (this.#socket.writable) this.#untold.delete(attemptId)
  }
}
