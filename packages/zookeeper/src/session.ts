import { shareListener, wasPaused } from '@locks/core/adapter'
import type { Clock, Timer } from '@locks/core/adapter'
import { State } from 'node-zookeeper-client'
import type { ACL, Client } from 'node-zookeeper-client'
import type { Chores } from './chores.ts'
import { code } from './errors.ts'
import { dropConnection, onClosing } from './quirks.ts'
import { Requests } from './requests.ts'
import { SignsOfLife } from './signs-of-life.ts'
import { Watches } from './watches.ts'

export interface SessionListener {
  /** The connection broke, or came back within the same session. */
  connection(up: boolean): void
  /** The session is over, according to the server or to the clock. */
  ended(): void
  /** Whether the session holds a lock. */
  holding(): boolean
}

/**
 * One ZooKeeper session. The library reports a session as expired only when a server says so, and treats a silent
 * connection as a good one; a client that is cut off has to find out by the clock.
 */
export class Session {
  readonly client: Client
  readonly requests: Requests
  readonly watches: Watches
  readonly chores: Chores
  readonly #clock: Clock
  readonly #listener: SessionListener
  readonly #unlisten: () => void
  readonly #waiting = new Set<() => void>()
  readonly #signs: SignsOfLife
  #connected = false
  #endedBy: number | undefined
  #timer: Timer | undefined
  #dueAt = 0

  constructor(client: Client, clock: Clock, acl: readonly ACL[], chores: Chores, listener: SessionListener) {
    this.client = client
    this.chores = chores
    this.#clock = clock
    this.#listener = listener
    this.#signs = new SignsOfLife(client.getSessionTimeout(), clock.now())
    this.requests = new Requests(client, clock, acl, {
      sendable: (now) => this.#isFresh(now),
      sent: () => this.#arm(),
      answered: (sentAt, written) => this.#signs.answered(sentAt, written, clock.now()),
    })
    this.watches = new Watches(this.requests)
    chores.added = () => {
      if (this.#connected) chores.run(this.requests)
      this.#arm()
    }
    const unlisten = [
      shareListener(client, 'state', () => this.#onState(client.getState())),
      onClosing(client, () => this.end()),
    ]
    this.#unlisten = () => unlisten.forEach((off) => off())
    this.#onState(client.getState())
    this.#arm()
  }

  get connected(): boolean {
    return this.#connected
  }

  /** The protocol's code for why it is over. */
  get endedBy(): number | undefined {
    return this.#endedBy
  }

  /** As negotiated with the server. */
  get timeoutMs(): number {
    return this.#signs.timeoutMs
  }

  /** How long a hold can be relied on after the leader answered. */
  get reliableMs(): number {
    return this.#signs.reliableMs
  }

  /** When the last request was sent that the leader answered. */
  get provenAt(): number {
    return this.#signs.provenAt
  }

  isMine(ephemeralOwner: Buffer): boolean {
    return this.#signs.isMine(ephemeralOwner)
  }

  /** Calls `listener` at the next change: connected, broken or over. */
  onChange(listener: () => void): () => void {
    this.#waiting.add(listener)
    return () => void this.#waiting.delete(listener)
  }

  end(reason: number = code.sessionExpired): void {
    if (this.#over) return
    this.#endedBy = reason
    this.#connected = false
    this.#timer?.cancel()
    this.#unlisten()
    this.requests.disconnected(reason)
    this.watches.clear()
    this.#listener.ended()
    this.#changed()
  }

  #onState(state: State): void {
    if (state === State.SYNC_CONNECTED) this.#connect()
    else if (state === State.DISCONNECTED) this.#disconnect()
    else this.end(state === State.AUTH_FAILED ? code.authFailed : code.sessionExpired)
  }

  #connect(): void {
    const { client } = this
    if (!this.#signs.connected(client.getSessionId(), client.getSessionTimeout())) return this.end()
    this.#connected = true
    this.requests.connected()
    this.chores.run(this.requests)
    this.#listener.connection(true)
    this.#changed()
  }

  #disconnect(): void {
    this.#signs.connecting(this.#clock.now())
    if (!this.#connected) return
    this.#connected = false
    this.requests.disconnected()
    this.watches.clear()
    this.#listener.connection(false)
    this.#changed()
    this.#arm()
  }

  #changed(): void {
    for (const listener of [...this.#waiting]) listener()
  }

  get #over(): boolean {
    return this.#endedBy !== undefined
  }

  /**
   * After a pause of this process the leader may be about to end the session, and learns of new requests too late if
   * our server is cut off from it. It learns of a new connection at once.
   */
  #isFresh(now: number): boolean {
    if (!this.#signs.hasLapsed(now)) return true
    dropConnection(this.client)
    return false
  }

  /** One timer, which fires rarely while there is nothing to check. */
  #arm(): void {
    if (this.#over) return
    const now = this.#clock.now()
    const idle = this.#connected && !this.chores.pending && this.requests.oldest === undefined
    const checkMs = Math.min(Math.max(this.timeoutMs / 12, 10), 500)
    const delayMs = idle ? Math.max(this.#signs.staleAt - now, 10) : checkMs
    if (this.#timer !== undefined && this.#dueAt <= now + delayMs) return
    this.#timer?.cancel()
    this.#dueAt = now + delayMs
    this.#timer = this.#clock.timer(delayMs, () => this.#look())
  }

  #look(): void {
    this.#timer = undefined
    const now = this.#clock.now()
    // After a pause of this process an unread answer may be in the socket.
    const late = wasPaused(this.#dueAt, now, this.#signs.silenceMs / 2)
    if (this.#connected) {
      const { oldest } = this.requests
      this.chores.run(this.requests)
      if (oldest === undefined) {
        if (now >= this.#signs.staleAt) void this.#ask()
      } else if (this.#signs.isSilent(oldest, now) && !late) dropConnection(this.client)
    } else if (now >= this.#signs.lostAt(this.#listener.holding())) return this.end()
    else if (this.#signs.isUnreachable(now) && !late) {
      this.#signs.connecting(now)
      dropConnection(this.client)
    }
    this.#arm()
  }

  async #ask(): Promise<void> {
    try {
      await this.requests.exists('/')
    } catch {
      // The state of the connection shows the reason too.
      this.#arm()
    }
  }
}
