import { shareListener } from '@locks/core/adapter'
import type { Clock, Timer } from '@locks/core/adapter'
import { State } from 'node-zookeeper-client'
import type { ACL, Client } from 'node-zookeeper-client'
import type { Chores } from './chores.ts'
import { code } from './errors.ts'
import { dropConnection, onClosing } from './quirks.ts'
import { Watches } from './watches.ts'
import { Wire } from './wire.ts'

export interface SessionListener {
  /** The connection broke, or is there again within the same session. */
  connection(up: boolean): void
  /** Over: the server said so, or the clock does. */
  ended(): void
  /** Whether anything is held, which must not outlive the session. */
  holding(): boolean
}

/** A server that owes an answer for longer is left for another one. */
const MAX_SILENCE_MS = 4_000

/**
 * As long as there is no session there is nothing to lose, and a connection that is given up leaves one at
 * the server. Short enough that whoever waits for a connection gets that to another server.
 */
const FIRST_SILENCE_MS = 1_500

/**
 * One ZooKeeper session, and what is known about its life. The library calls a session expired only
 * when a server tells it so, and takes a silent connection for a good one; so whoever is cut off
 * has to find out by the clock.
 */
export class Session {
  readonly client: Client
  readonly wire: Wire
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
  #aliveAt: number
  #provenAt = -Infinity
  #heardAt = -Infinity
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
    this.wire = new Wire(client, clock, acl, {
      sent: () => this.#arm(),
      heard: (sentAt, written) => {
        this.#heardAt = clock.now()
        this.#aliveAt = Math.max(this.#aliveAt, sentAt)
        if (written) this.#provenAt = Math.max(this.#provenAt, sentAt)
      },
    })
    this.watches = new Watches(this.wire)
    chores.added = () => {
      if (this.#connected) chores.run(this.wire)
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

  /** Why it is over, as the protocol's code. */
  get endedBy(): number | undefined {
    return this.#endedBy
  }

  get over(): boolean {
    return this.#over
  }

  /** As negotiated with the server. */
  get timeoutMs(): number {
    return this.#timeoutMs
  }

  /**
   * How long after a proof of life a hold may be relied on. A proof shows that the leader knew the
   * session, not since when it counts: it hears of signs of life through the server that the client
   * is connected to, up to half a tick late, and never if that server is cut off just then. So it
   * may count from the sign before, up to a third of the timeout earlier, when the library last
   * pinged. Half of the timeout leaves a sixth for the half tick and a late ping.
   */
  get reliableMs(): number {
    return Math.floor(this.#timeoutMs / 2)
  }

  /** When the last request was sent that the leader is known to have seen. */
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

  /** Somebody waits for an event, so a connection that only seems to be there has to be noticed. */
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
    this.wire.broke(reason)
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
    // Holds count on the session and the timeout they were made with.
    if (this.#id !== undefined && (!this.#id.equals(id) || timeoutMs < this.#timeoutMs)) return this.end()
    this.#id = id
    this.#timeoutMs = timeoutMs
    this.#connected = true
    this.wire.connected()
    this.#aliveAt = Math.max(this.#aliveAt, this.#connectingSince)
    this.chores.run(this.wire)
    this.#listener.connection(true)
    this.#changed()
  }

  #disconnect(): void {
    this.#connectingSince = this.#clock.now()
    if (!this.#connected) return
    this.#connected = false
    this.wire.broke()
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

  /** One timer, and only while there is something to look after. */
  #arm(): void {
    if (this.#over || this.#timer !== undefined) return
    const idle = this.#connected && this.#attended === 0 && !this.chores.pending
    if (idle && this.wire.oldest === undefined) return
    const delayMs = Math.min(Math.max(this.#timeoutMs / 12, 10), 500)
    this.#dueAt = this.#clock.now() + delayMs
    this.#timer = this.#clock.timer(delayMs, () => this.#look())
  }

  #look(): void {
    this.#timer = undefined
    const now = this.#clock.now()
    // After a pause of this process an answer may lie in the socket, not read yet.
    const late = now - this.#dueAt > this.#silenceMs / 2
    if (this.#connected) {
      const { oldest } = this.wire
      this.chores.run(this.wire)
      if (oldest === undefined) {
        if (this.#attended > 0 && now - this.#aliveAt >= this.#timeoutMs / 3) void this.#ask()
        // With many under way the oldest may be old, and the server yet busy answering.
      } else if (now - Math.max(oldest, this.#heardAt) >= this.#silenceMs && !late)
        dropConnection(this.client)
    } else if (now >= this.#lostAt()) return this.end()
    else if (now - this.#connectingSince >= this.#silenceMs && !late) {
      this.#connectingSince = now
      dropConnection(this.client)
    }
    this.#arm()
  }

  /** Holds must be over before the leader can end the session; a place in a queue is worth waiting for. */
  #lostAt(): number {
    if (this.#id === undefined) return this.#aliveAt + Math.max(this.#timeoutMs, MAX_SILENCE_MS)
    if (!this.#listener.holding()) return this.#aliveAt + this.#timeoutMs
    return this.#provenAt + this.reliableMs - this.reliableMs / 100 - 2
  }

  async #ask(): Promise<void> {
    try {
      await this.wire.exists('/')
    } catch {
      // Whatever it is, the state of the connection tells it too.
      this.#arm()
    }
  }
}
