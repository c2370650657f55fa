import { safeTtlMs, shareListener, wasPaused } from '@locks/core/adapter'
import type { Clock, Timer } from '@locks/core/adapter'
import { State } from 'node-zookeeper-client'
import type { ACL, Client } from 'node-zookeeper-client'
import type { Chores } from './chores.ts'
import { code } from './errors.ts'
import { dropConnection, onClosing } from './quirks.ts'
import { Requests } from './requests.ts'
import { Watches } from './watches.ts'

export interface SessionListener {
  /** The connection broke, or came back within the same session. */
  connection(up: boolean): void
  /** The session is over, according to the server or to the clock. */
  ended(): void
  /** Whether the session holds a lock. */
  holding(): boolean
}

/** A server that is silent for longer while a request is pending is left for another one. */
const MAX_SILENCE_MS = 4_000

/**
 * The same before the first session: nothing can be lost yet, and giving a connection up leaves a session at the
 * server. Below the time that a call waits for a connection, so that it also reaches another server.
 */
const FIRST_SILENCE_MS = 1_500

/**
 * One ZooKeeper session, and what is known about its life. The library reports a session as expired only when a server
 * says so, and treats a silent connection as a good one; a client that is cut off has to find out by the clock.
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
  #id: Buffer | undefined
  #timeoutMs: number
  #connected = false
  #over = false
  #endedBy: number | undefined
  /** When the last request was sent that any server answered. */
  #aliveAt: number
  #provenAt = -Infinity
  #answeredAt = -Infinity
  #connectingSince: number
  #attended = 0
  #timer: Timer | undefined
  #dueAt = 0

  constructor(client: Client, clock: Clock, acl: readonly ACL[], chores: Chores, listener: SessionListener) {
    this.client = client
    this.chores = chores
    this.#clock = clock
    this.#listener = listener
    this.#timeoutMs = client.getSessionTimeout()
    this.#aliveAt = this.#connectingSince = clock.now()
    this.requests = new Requests(client, clock, acl, {
      sent: () => this.#arm(),
      answered: (sentAt, written) => {
        this.#answeredAt = clock.now()
        this.#aliveAt = Math.max(this.#aliveAt, sentAt)
        if (written) this.#provenAt = Math.max(this.#provenAt, sentAt)
      },
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
    return this.#timeoutMs
  }

  /**
   * How long a hold can be relied on after the leader answered. The answer shows that the leader knew the session, not
   * from when it counts the timeout: signs of life reach it through the client's server, up to half a tick late, and
   * never if that server is cut off just then. So it may count from the library's ping before, up to a third of the
   * timeout earlier. Half of the timeout leaves a sixth for the half tick and a late ping.
   */
  get reliableMs(): number {
    return Math.floor(this.#timeoutMs / 2)
  }

  /** When the last request was sent that the leader answered. */
  get provenAt(): number {
    return this.#provenAt
  }

  isMine(ephemeralOwner: Buffer): boolean {
    return this.#id?.equals(ephemeralOwner) ?? false
  }

  /** Calls `listener` at the next change: connected, broken or over. */
  onChange(listener: () => void): () => void {
    this.#waiting.add(listener)
    return () => void this.#waiting.delete(listener)
  }

  /** Until the returned function is called, a silent connection is detected even if no request is pending. */
  attend(): () => void {
    this.#attended += 1
    this.#arm()
    return () => void (this.#attended -= 1)
  }

  end(reason: number = code.sessionExpired): void {
    if (this.#over) return
    this.#over = true
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
    const [id, timeoutMs] = [this.client.getSessionId(), this.client.getSessionTimeout()]
    // Holds rely on the session and the timeout they were granted with.
    if (this.#id !== undefined && (!this.#id.equals(id) || timeoutMs < this.#timeoutMs)) return this.end()
    this.#id = id
    this.#timeoutMs = timeoutMs
    this.#connected = true
    this.requests.connected()
    this.#aliveAt = Math.max(this.#aliveAt, this.#connectingSince)
    this.chores.run(this.requests)
    this.#listener.connection(true)
    this.#changed()
  }

  #disconnect(): void {
    this.#connectingSince = this.#clock.now()
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

  get #silenceMs(): number {
    const silenceMs = Math.min(this.#timeoutMs / 3, MAX_SILENCE_MS)
    return this.#id === undefined ? Math.max(silenceMs, FIRST_SILENCE_MS) : silenceMs
  }

  /** One timer, and only while there is something to check. */
  #arm(): void {
    if (this.#over || this.#timer !== undefined) return
    const idle = this.#connected && this.#attended === 0 && !this.chores.pending
    if (idle && this.requests.oldest === undefined) return
    const delayMs = Math.min(Math.max(this.#timeoutMs / 12, 10), 500)
    this.#dueAt = this.#clock.now() + delayMs
    this.#timer = this.#clock.timer(delayMs, () => this.#look())
  }

  #look(): void {
    this.#timer = undefined
    const now = this.#clock.now()
    // After a pause of this process an unread answer may be in the socket.
    const late = wasPaused(this.#dueAt, now, this.#silenceMs / 2)
    if (this.#connected) {
      const { oldest } = this.requests
      this.chores.run(this.requests)
      if (oldest === undefined) {
        if (this.#attended > 0 && now - this.#aliveAt >= this.#timeoutMs / 3) void this.#ask()
        // With many pending requests the oldest may be old while the server is still answering others.
      } else if (now - Math.max(oldest, this.#answeredAt) >= this.#silenceMs && !late)
        dropConnection(this.client)
    } else if (now >= this.#lostAt()) return this.end()
    else if (now - this.#connectingSince >= this.#silenceMs && !late) {
      this.#connectingSince = now
      dropConnection(this.client)
    }
    this.#arm()
  }

  /** Holds must end before the leader can end the session; without a hold, the place in the queue is worth the wait. */
  #lostAt(): number {
    if (this.#id === undefined) return this.#aliveAt + Math.max(this.#timeoutMs, MAX_SILENCE_MS)
    if (!this.#listener.holding()) return this.#aliveAt + this.#timeoutMs
    return this.#provenAt + safeTtlMs(this.reliableMs)
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
