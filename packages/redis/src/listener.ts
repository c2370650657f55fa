import type { Redis } from 'ioredis'
import { isCluster } from './client.ts'
import type { Connection } from './connection.ts'
import { isOpen, ownOptions } from './connection.ts'
import { loosen } from './loosen.ts'
import { SILENCE_MS, watchForSilence } from './silence.ts'

export interface Heard {
  message(channel: string, text: string): void
  /** Messages on these channels may have been missed. */
  gap(channels: ReadonlySet<string>): void
}

interface Channel {
  readonly ear: Ear
  live: boolean
  opened: Promise<boolean>
}

/**
 * Listens to channels, on connections of its own that open when first needed: one, or on a Cluster one to
 * each primary that has a channel. It subscribes again by itself whenever a connection was lost.
 */
export class Listener {
  readonly #connection: Connection
  readonly #heard: Heard
  readonly #ears = new Map<string, Ear>()
  /** By channel, least recently wanted first: where it is listened to, and since when that is certain. */
  readonly #channels = new Map<string, Channel>()
  #closed = false

  constructor(connection: Connection, heard: Heard) {
    this.#connection = connection
    this.#heard = heard
    connection.onSwitch(() => {
      for (const ear of this.#ears.values()) ear.reconnect()
    })
  }

  /** Whether anything was ever listened to. */
  get used(): boolean {
    return this.#channels.size > 0
  }

  /** Whether messages on `channel` are certain to arrive, as far as can be known here. */
  hears(channel: string): boolean {
    const found = this.#channels.get(channel)
    return found?.live === true && found.ear === this.#ears.get(this.#earFor(channel))
  }

  /** Resolves with whether `channel` is listened to: once there is a connection, however long that takes. */
  listen(channel: string): Promise<boolean> {
    const key = this.#earFor(channel)
    const found = this.#channels.get(channel)
    if (found !== undefined && found.ear === this.#ears.get(key)) return found.opened
    const ear = this.#ear(key, channel)
    if (ear === undefined) return Promise.resolve(false)
    const entry: Channel = { ear, live: false, opened: ear.subscribe(channel) }
    entry.opened = entry.opened.then((live) => {
      entry.live = live && !this.#closed
      if (!live && this.#channels.get(channel) === entry) this.#channels.delete(channel)
      return entry.live
    })
    this.#channels.set(channel, entry)
    return entry.opened
  }

  /** The server says that nobody listens to `channel`: its connection leads elsewhere by now. */
  distrust(channel: string): void {
    const found = this.#channels.get(channel)
    if (found?.live !== true) return
    this.#channels.delete(channel)
    found.ear.reconnect()
  }

  /** Stops listening; a channel that is wanted again and again should better stay. */
  ignore(channel: string): void {
    const found = this.#channels.get(channel)
    this.#channels.delete(channel)
    found?.ear.unsubscribe(channel)
  }

  /** Keeps at most `count` channels of those that `idle` approves of leaving. */
  trim(count: number, idle: (channel: string) => boolean): void {
    for (const channel of this.#channels.keys()) {
      if (this.#channels.size <= count) return
      if (idle(channel)) this.ignore(channel)
    }
  }

  close(): void {
    this.#closed = true
    for (const ear of this.#ears.values()) ear.close()
    this.#ears.clear()
    this.#channels.clear()
  }

  /** Sharded channels are heard on the server of their slot only. */
  #earFor(channel: string): string {
    const { client } = this.#connection
    if (!isCluster(client)) return ''
    const node = this.#connection.nodeOf(channel)
    return node === undefined ? '' : `${node.options.host}:${node.options.port}`
  }

  #ear(key: string, channel: string): Ear | undefined {
    if (this.#closed) return undefined
    const found = this.#ears.get(key)
    if (found !== undefined) return found
    const { client } = this.#connection
    const like = isCluster(client) ? this.#connection.nodeOf(channel) : client
    if (like === undefined) return undefined
    const ear: Ear = new Ear(like, isCluster(client), {
      message: (name, text) => this.#heard.message(name, text),
      lost: () => this.#lost(key, ear),
      moved: () => this.#moved(ear),
    })
    this.#ears.set(key, ear)
    return ear
  }

  /**
   * The subscriptions wait for the next connection, there or wherever their slot has moved. If that
   * fails, whoever waits must look all the same, and finds out by that where to listen.
   */
  #lost(key: string, ear: Ear): void {
    const lost = this.#channelsOn(ear).filter((channel) => {
      // Asked for and not answered: that is sent again by itself, unless it has to go elsewhere.
      return this.#channels.get(channel)?.live === true || this.#earFor(channel) !== key
    })
    for (const channel of lost) this.#channels.delete(channel)
    if (this.#closed) return
    if (lost.length > 0)
      void Promise.all(lost.map((channel) => this.listen(channel))).then(() => this.#heard.gap(new Set(lost)))
    if (key === '' || this.#channelsOn(ear).length > 0) return
    this.#ears.delete(key)
    ear.close()
  }

  /** A slot has left that server, and it does not say which. Whoever waits finds out where to listen by looking. */
  #moved(ear: Ear): void {
    const doubtful = this.#channelsOn(ear).filter((channel) => this.#channels.get(channel)?.live === true)
    for (const channel of doubtful) this.#channels.delete(channel)
    this.#heard.gap(new Set(doubtful))
  }

  #channelsOn(ear: Ear): string[] {
    return [...this.#channels].filter(([, entry]) => entry.ear === ear).map(([channel]) => channel)
  }
}

interface EarHeard extends Pick<Heard, 'message'> {
  /** The connection ended, and its subscriptions with it. */
  lost(): void
  /** Some subscription ended, because its slot went to another server. */
  moved(): void
}

/** One connection in subscriber mode. */
class Ear {
  readonly #client: Redis
  readonly #sharded: boolean
  readonly #watchdog: NodeJS.Timeout

  constructor(like: Redis, sharded: boolean, heard: EarHeard) {
    this.#sharded = sharded
    const { lazyConnect, connectTimeout, sentinelCommandTimeout, keepAlive, retryStrategy } = ownOptions
    this.#client = like.duplicate({
      lazyConnect,
      connectTimeout,
      sentinelCommandTimeout,
      // Its connections to Sentinels would keep the process from ending; a switch is told to this by its owner.
      failoverDetector: false,
      keepAlive,
      retryStrategy,
      // Channels have it already. To SSUBSCRIBE, unlike SUBSCRIBE, a channel is a key, and would get it twice.
      keyPrefix: '',
      // Silence is normal here.
      socketTimeout: undefined,
      maxRetriesPerRequest: null,
      enableOfflineQueue: true,
      enableAutoPipelining: false,
      autoResubscribe: false,
      readOnly: false,
    })
    this.#client.on(sharded ? 'smessage' : 'message', (channel: string, text: string) =>
      heard.message(channel, text),
    )
    loosen(this.#client)
    // What an error means is decided at 'close', which follows it.
    this.#client.on('error', () => undefined)
    this.#client.on('close', () => heard.lost())
    this.#client.on('moved', () => heard.moved())
    this.#watchdog = watchForSilence(() => [this.#client], SILENCE_MS)
  }

  /** Whether it worked: a server may refuse, or send on to another. */
  async subscribe(channel: string): Promise<boolean> {
    try {
      if (this.#sharded) await this.#client.ssubscribe(channel)
      else await this.#client.subscribe(channel)
      return true
    } catch {
      return false
    }
  }

  unsubscribe(channel: string): void {
    const gone = this.#sharded ? this.#client.sunsubscribe(channel) : this.#client.unsubscribe(channel)
    // A lost connection has no subscriptions either.
    gone.catch(() => undefined)
  }

  reconnect(): void {
    if (isOpen(this.#client)) this.#client.disconnect(true)
  }

  close(): void {
    clearInterval(this.#watchdog)
    this.#client.disconnect()
  }
}
