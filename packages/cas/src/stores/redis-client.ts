import { wrongOption } from '@locks/core/adapter'
import type * as redis from '@locks/redis/connection'
import { codeOf, errors } from '../errors.ts'
import { declared } from '../option-table.ts'
import type { RedisStoreOptions } from './redis-options.ts'
import { serverOf } from './redis-place.ts'
import type { Server } from './redis-place.ts'

type Library = typeof redis

/** `@locks/redis` and ioredis are only needed where the store is a server. */
export async function loadLibrary(): Promise<Library> {
  try {
    return await import('@locks/redis/connection')
  } catch (error) {
    if (codeOf(error) !== 'ERR_MODULE_NOT_FOUND') throw error
    throw errors.invalid('redis and tair need two more packages: npm install @locks/redis ioredis')
  }
}

interface Opened {
  readonly library: Library
  readonly connection: redis.Connection
  readonly subscriber: redis.Subscriber
}

/** The connection of `@locks/redis`, opened when first needed. */
export class RedisLink {
  readonly #server: Server
  readonly #scripts = new Map<string, redis.Script>()
  #opening: Promise<Opened> | undefined
  #opened: Opened | undefined
  #closed = false

  constructor(options: RedisStoreOptions) {
    this.#server = serverOf(options)
    // Loading takes a while, which should not be part of the first lease.
    void loadLibrary().catch(() => undefined)
  }

  /** How often the connection broke so far. */
  get breaks(): number {
    return this.#opened?.connection.breaks ?? 0
  }

  /** A command whose reply decides nothing about a lock: it is not checked. */
  async call(command: string, ...args: string[]): Promise<unknown> {
    return (await this.#open()).connection.call(command, ...args)
  }

  /** A command about `key`, which is its first argument, if it has any. */
  async ask(key: string, command: string, ...args: string[]): Promise<unknown> {
    const { connection } = await this.#open()
    const full = connection.prefix + key
    return connection.ask(full, command, ...(command === 'TIME' ? [] : [full]), ...args)
  }

  /** Runs the text of a script about `key`. */
  async run(key: string, body: string, ...args: string[]): Promise<unknown> {
    const { connection, library } = await this.#open()
    const script = this.#scripts.get(body) ?? library.script(body)
    this.#scripts.set(body, script)
    return connection.run(script, library.keysOf([connection.prefix + key]), args, (reply) => reply)
  }

  /**
   * The channel of changes of `key`. Channels belong to the server, keys do not: the same key in another database, or
   * under another prefix of the user's client, is another key.
   */
  async channelOf(key: string): Promise<string> {
    const { prefix, db } = (await this.#open()).connection
    return `${prefix}changed:${db}:${key}`
  }

  /** Without a prefix of the store, the keys are among those of an application. */
  async hasPrefix(): Promise<boolean> {
    return !(await this.#open()).connection.isShared
  }

  /** The keys under our prefix, without it, a page at a time; one may come twice. */
  async *pages(...filter: string[]): AsyncGenerator<readonly string[]> {
    const { connection } = await this.#open()
    const { prefix } = connection
    const pattern = `${prefix.replaceAll(/[*?[\]\\]/g, '\\$&')}*`
    for await (const [, page] of connection.scan('MATCH', pattern, ...filter))
      yield page.map((key) => key.slice(prefix.length))
  }

  async *keys(...filter: string[]): AsyncGenerator<string> {
    for await (const page of this.pages(...filter)) yield* page
  }

  /** Resolves once changes of `key` arrive. `hint` gets an empty message when some may have been missed. */
  async watch(key: string, hint: (message: string) => void): Promise<() => void> {
    const channel = await this.channelOf(key)
    const { subscriber } = await this.#open()
    const listener = (message = ''): void => hint(message)
    const stop = (): void => subscriber.unsubscribe(channel, listener)
    if (await subscriber.subscribe(channel, listener)) return stop
    stop()
    throw errors.unavailable('the server refuses the subscription to changes; waiters poll instead')
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#opening?.catch(() => undefined)
    this.#opened?.subscriber.close()
    this.#opened?.connection.close()
  }

  #open(): Promise<Opened> {
    if (this.#closed)
      return Promise.reject(
        errors.unavailable('the store was closed, so nothing was sent; make a new client'),
      )
    return (this.#opening ??= this.#connect())
  }

  async #connect(): Promise<Opened> {
    const library = await loadLibrary()
    const connection = new library.Connection({ ...placeIn(library, this.#server), errors })
    // Scripts publish with PUBLISH, which also reaches a Cluster without sharded channels.
    const subscriber = new library.Subscriber(connection, { sharded: false })
    return (this.#opened = { library, connection, subscriber })
  }
}

/** Never without a client or a URL: ioredis would open its default, which is another server. */
function placeIn(library: Library, { place, prefix }: Server): redis.ConnectionSettings {
  if ('url' in place) return { ...place, prefix }
  const { client } = place
  if (!library.isClient(client)) throw wrongOption(declared, 'client', client)
  return { client, prefix }
}
