import { settleOptions, wrongOption } from '@locks/core/adapter'
import type * as redis from '@locks/redis/connection'
import { codeOf, errors, invalid, unavailable } from '../errors.ts'
import { declared } from '../option-table.ts'
import type { RedisStoreOptions } from './redis-options.ts'

type Library = typeof redis

/** `@locks/redis` and ioredis are only needed where the store is a server. */
export async function loadLibrary(): Promise<Library> {
  try {
    return await import('@locks/redis/connection')
  } catch (error) {
    if (codeOf(error) !== 'ERR_MODULE_NOT_FOUND') throw error
    throw invalid('redis and tair need two more packages: npm install @locks/redis ioredis')
  }
}

interface Opened {
  readonly library: Library
  readonly connection: redis.Connection
  readonly watches: redis.Watches
}

/** The connection of `@locks/redis`, opened when first needed. */
export class RedisLink {
  readonly #url: string | undefined
  readonly #client: unknown
  readonly #prefix: string
  readonly #scripts = new Map<string, redis.Script>()
  #opening: Promise<Opened> | undefined
  #opened: Opened | undefined
  #closed = false

  constructor(options: RedisStoreOptions) {
    const { url, client, prefix } = settleOptions(declared, { ...options, store: 'redis' })
    if (client !== undefined && !looksLikeClient(client)) throw wrongOption(declared, 'client', client)
    this.#url = url
    this.#client = client
    this.#prefix = prefix
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

  /** The keys under our prefix, without it; one may come twice. */
  async *keys(...filter: string[]): AsyncGenerator<string> {
    const { connection } = await this.#open()
    const { prefix } = connection
    const pattern = `${prefix.replaceAll(/[*?[\]\\]/g, '\\$&')}*`
    for (const { scan } of await connection.primaries())
      for await (const page of scan('MATCH', pattern, ...filter))
        for (const key of page) yield key.slice(prefix.length)
  }

  /** Resolves once changes of `key` arrive. `hint` gets an empty message when some may have been missed. */
  async watch(key: string, hint: (message: string) => void): Promise<() => void> {
    const channel = await this.channelOf(key)
    const { live, stop } = (await this.#open()).watches.watch(channel, (message = '') => hint(message))
    if (await live) return stop
    stop()
    throw unavailable('the server refuses the subscription to changes; waiters poll instead')
  }

  async close(): Promise<void> {
    this.#closed = true
    const opened = await this.#opening?.catch(() => undefined)
    opened?.watches.close()
    opened?.connection.close()
  }

  #open(): Promise<Opened> {
    if (this.#closed) return Promise.reject(unavailable('the store was closed'))
    return (this.#opening ??= this.#connect())
  }

  async #connect(): Promise<Opened> {
    const library = await loadLibrary()
    const [client, url] = [this.#client, this.#url]
    const place = { ...(library.isClient(client) && { client }), ...(url !== undefined && { url }) }
    const connection = new library.Connection({ ...place, prefix: this.#prefix, errors })
    // Scripts publish with PUBLISH, which also reaches a Cluster without sharded channels.
    const watches = new library.Watches(connection, { sharded: false })
    return (this.#opened = { library, connection, watches })
  }
}

/** A client of node-redis has no status. */
function looksLikeClient(value: unknown): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof Reflect.get(value, 'sendCommand') === 'function' &&
    typeof Reflect.get(value, 'status') === 'string'
  )
}
