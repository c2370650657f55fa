import type { Connection } from './connection.ts'
import type { Server, SubscriberConnection } from './drivers/driver.ts'

/** Gets each message of a channel; undefined where messages may have been missed. */
export type Listener = (text: string | undefined, channel: string) => void

interface Channel {
  readonly on: SubscriberConnection
  live: boolean
  opened: Promise<boolean>
}

/**
 * Subscribes to channels on its own connections, which open when first needed: one, or on a Cluster one to each primary
 * that has a channel. It subscribes again by itself whenever a connection was lost.
 */
export class Subscriber {
  readonly #connection: Connection
  readonly #sharded: boolean
  /** By channel, least recently used first; kept while disconnected. */
  readonly #listeners = new Map<string, Set<Listener>>()
  /** By the server it leads to. */
  readonly #connections = new Map<string, SubscriberConnection>()
  /** By channel: its connection, and whether the server has confirmed it. */
  readonly #channels = new Map<string, Channel>()
  #closed = false

  /** On a Cluster the channels are sharded. Default: true. */
  constructor(connection: Connection, { sharded = true }: { readonly sharded?: boolean } = {}) {
    this.#connection = connection
    this.#sharded = sharded && connection.cluster
    connection.onSwitch(() => {
      for (const each of this.#connections.values()) each.reconnect()
    })
  }

  /** Whether messages on `channel` arrive for certain, as far as this side can know. */
  isLive(channel: string): boolean {
    const found = this.#channels.get(channel)
    return found?.live === true && found.on === this.#connectionFor(channel)
  }

  /** Resolves with whether messages arrive: once there is a connection, however long that takes. */
  subscribe(channel: string, listener: Listener): Promise<boolean> {
    const listeners = this.#listeners.get(channel) ?? new Set()
    this.#listeners.set(channel, listeners.add(listener))
    return this.#open(channel)
  }

  #open(channel: string): Promise<boolean> {
    const place = this.#placeOf(channel)
    if (place === undefined || this.#closed) return Promise.resolve(false)
    const found = this.#channels.get(channel)
    const on = this.#connections.get(place.at) ?? this.#connectTo(place)
    if (found?.on === on) return found.opened
    const entry: Channel = { on, live: false, opened: on.subscribe(channel) }
    entry.opened = entry.opened.then((live) => {
      entry.live = live && !this.#closed
      if (!live && this.#channels.get(channel) === entry) this.#channels.delete(channel)
      return entry.live
    })
    this.#channels.set(channel, entry)
    return entry.opened
  }

  /** The server says that `channel` has no subscriber: its connection leads elsewhere by now. */
  distrust(channel: string): void {
    const found = this.#channels.get(channel)
    if (found?.live !== true) return
    this.#channels.delete(channel)
    found.on.reconnect()
  }

  /** Keep a channel that is wanted again and again. */
  unsubscribe(channel: string, listener: Listener): void {
    const listeners = this.#listeners.get(channel)
    if (listeners?.delete(listener) === true && listeners.size === 0) this.#drop(channel)
  }

  #drop(channel: string): void {
    this.#listeners.delete(channel)
    const found = this.#channels.get(channel)
    this.#channels.delete(channel)
    found?.on.unsubscribe(channel)
  }

  /** Keeps at most `count` channels, dropping only those that are `idle`. */
  trim(count: number, idle: (channel: string) => boolean): void {
    for (const channel of this.#listeners.keys()) {
      if (this.#listeners.size <= count) return
      if (idle(channel)) this.#drop(channel)
    }
  }

  close(): void {
    this.#closed = true
    for (const each of this.#connections.values()) each.close()
    this.#connections.clear()
    this.#channels.clear()
    this.#listeners.clear()
  }

  /** On a Cluster the primary of the channel's slot, which is the only one with a sharded channel. */
  #placeOf(channel: string): Server | undefined {
    return this.#connection.link.placeOf(channel)
  }

  #connectionFor(channel: string): SubscriberConnection | undefined {
    const place = this.#placeOf(channel)
    return place && this.#connections.get(place.at)
  }

  #connectTo(place: Server): SubscriberConnection {
    const { at } = place
    const made: SubscriberConnection = this.#connection.link.subscriber(place, this.#sharded, {
      message: (name, text) => this.#notify(name, text),
      lost: () => this.#lost(at, made),
      moved: () => this.#moved(made),
    })
    this.#connections.set(at, made)
    return made
  }

  /**
   * The channels are subscribed to again on the next connection, there or where their slot has moved. If that fails,
   * waiters look all the same, and learn by that where to subscribe.
   */
  #lost(at: string, on: SubscriberConnection): void {
    const lost = this.#channelsOn(on).filter((channel) => {
      // The connection repeats a subscription that was not confirmed, unless it has to go elsewhere.
      return this.#channels.get(channel)?.live === true || this.#placeOf(channel)?.at !== at
    })
    for (const channel of lost) this.#channels.delete(channel)
    if (this.#closed) return
    if (lost.length > 0)
      void Promise.all(lost.map((channel) => this.#open(channel))).then(() => this.#missed(lost))
    if (!this.#connection.cluster || this.#channelsOn(on).length > 0) return
    this.#connections.delete(at)
    on.close()
  }

  /** A slot has left that server, which does not say which one. Waiters learn where to subscribe by looking. */
  #moved(on: SubscriberConnection): void {
    const doubtful = this.#channelsOn(on).filter((channel) => this.#channels.get(channel)?.live === true)
    for (const channel of doubtful) this.#channels.delete(channel)
    this.#missed(doubtful)
  }

  #missed(channels: readonly string[]): void {
    for (const channel of channels) this.#notify(channel, undefined)
  }

  #notify(channel: string, text: string | undefined): void {
    for (const listener of [...(this.#listeners.get(channel) ?? [])]) listener(text, channel)
  }

  #channelsOn(on: SubscriberConnection): string[] {
    return [...this.#channels].filter(([, entry]) => entry.on === on).map(([channel]) => channel)
  }
}
