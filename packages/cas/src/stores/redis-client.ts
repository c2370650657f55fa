import { settleOptions, shareListener, wrongOption } from '@locks/core/adapter'
import type { LockError } from '@locks/core/adapter'
import { codeOf, invalid, redisError, replyCode, unavailable } from '../errors.ts'
import { declared } from '../option-table.ts'
import { ECHO, misdirected, nextCall } from './redis-reply.ts'
import type { Script } from './redis-script.ts'

/** The part of an ioredis client, single or cluster, that the stores need. */
export type RedisClient = SingleClient | ClusterClient

interface Commands {
  call(command: string, ...args: string[]): Promise<unknown>
  subscribe(channel: string): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  on(event: string, listener: (...args: string[]) => void): unknown
  off(event: string, listener: (...args: string[]) => void): unknown
  disconnect(): void
}

interface SingleClient extends Commands {
  duplicate(override?: { keyPrefix: string; autoResubscribe: boolean }): Commands
}

interface ClusterClient extends Commands {
  duplicate(startupNodes?: never[], override?: { keyPrefix: string }): Commands
  nodes(role: 'master' | 'all'): readonly Commands[]
}

/** Of the stores `redis` and `tair`: where the server is, by `url` or `client`. */
// <options RedisStoreOptions only redis>
export interface RedisStoreOptions {
  /** `redis://…`, `rediss://…` or `tair://…`; without `store` also `file:/path/to/directory`. */
  readonly url?: string
  /** An ioredis client of your own. It is not closed; hints come by a duplicate of it. */
  readonly client?: RedisClient
  /** In front of every key and channel. Default: `locks:cas:`. */
  readonly prefix?: string
}
// </options>

/** A hung server is an outage after this long; the connection is then made anew. */
const SILENCE_MS = 2_000

const settings = {
  lazyConnect: true,
  enableAutoPipelining: true,
  // What was under way when the connection broke is sent once more: a put knows its own value again.
  maxRetriesPerRequest: 1,
  connectTimeout: SILENCE_MS,
  socketTimeout: SILENCE_MS,
  retryStrategy: (times: number): number => Math.min(times * 50, 500),
}

export const DEFAULT_PREFIX: string = declared.options.prefix.default

type Hint = (message: string) => void

/** One connection for commands, and one for hints once somebody waits; both made when first needed. */
export class RedisLink {
  readonly #options: RedisStoreOptions
  #commands: Promise<RedisClient> | undefined
  #hints: Promise<Commands> | undefined
  readonly #listeners = new Map<string, Set<Hint>>()
  #closed = false
  /** Why an own client last failed to connect. */
  #lastError: unknown
  #stopCounting: readonly (() => void)[] = []
  /** How often the connection broke so far. */
  breaks = 0

  constructor(options: RedisStoreOptions) {
    const { client } = settleOptions(declared, { ...options, store: 'redis' })
    if (client !== undefined && !isClient(client)) throw wrongOption(declared, 'client', client)
    this.#options = options
    // Loading it takes a while, which should not be a part of the first lease.
    if (options.client === undefined) void loadClient().catch(() => undefined)
  }

  /** For a command whose reply decides nothing about a lock: it is not checked. */
  async call(command: string, ...args: string[]): Promise<unknown> {
    const client = await this.#client()
    try {
      return await client.call(command, ...args)
    } catch (error) {
      throw this.#failed(error)
    }
  }

  /**
   * A command about `key` whose reply cannot name it. It is followed at once by one whose reply can, on the same
   * connection: where a reply is missing or one too many, that one is not answered rightly either.
   */
  async callChecked(key: string, command: string, ...args: string[]): Promise<unknown> {
    const client = await this.#client()
    const name = nextCall()
    const [reply, echo] = await Promise.allSettled([
      client.call(command, ...args),
      client.call('EVAL', ECHO, '1', key, name),
    ])
    if (echo.status === 'rejected') throw this.#failed(echo.reason)
    if (echo.value !== name) throw misdirected(client)
    if (reply.status === 'rejected') throw this.#failed(reply.reason)
    return reply.value
  }

  /** By its hash, and in full where the server does not know it (yet, or after a restart). */
  async run({ source, sha1 }: Script, ...args: string[]): Promise<unknown> {
    const client = await this.#client()
    const name = nextCall()
    let reply: unknown
    try {
      reply = await client.call('EVALSHA', sha1, ...args, name).catch((error: unknown) => {
        if (replyCode(error) !== 'NOSCRIPT') throw error
        return client.call('EVAL', source, ...args, name)
      })
    } catch (error) {
      throw this.#failed(error)
    }
    if (!Array.isArray(reply) || reply[0] !== name) throw misdirected(client)
    return reply[1]
  }

  /**
   * Where changes of `key` are told. Channels are the server's, keys are not: the same key in another
   * database, or under another prefix of the user's client, is another key.
   */
  async channelOf(key: string): Promise<string> {
    const { keyPrefix, db } = optionsOf(await this.#client())
    return `${keyPrefix}${this.#options.prefix ?? DEFAULT_PREFIX}changed:${db}:${key}`
  }

  /** The keys under our prefix, without it; one may come twice. */
  async *keys(...filter: string[]): AsyncGenerator<string> {
    const client = await this.#client()
    const prefix = this.#options.prefix ?? DEFAULT_PREFIX
    const { keyPrefix } = optionsOf(client)
    const pattern = `${(keyPrefix + prefix).replaceAll(/[*?[\]\\]/g, '\\$&')}*`
    // A Cluster knows all of its nodes once it has answered something.
    if (isCluster(client)) await this.call('PING')
    for (const node of isCluster(client) ? client.nodes('master') : [client]) {
      let cursor = '0'
      do {
        const reply = await node
          .call('SCAN', cursor, 'MATCH', pattern, 'COUNT', '500', ...filter)
          .catch((error: unknown) => Promise.reject(this.#failed(error)))
        const page: readonly unknown[] = Array.isArray(reply) ? reply : []
        const [next, keys] = page
        if (!Array.isArray(keys)) throw unavailable('SCAN gave an answer that is not understood')
        for (const key of keys) yield String(key).slice(keyPrefix.length + prefix.length)
        cursor = String(next)
      } while (cursor !== '0')
    }
  }

  /** Resolves once changes of `key` are heard. */
  async listen(key: string, hint: Hint): Promise<() => void> {
    const channel = await this.channelOf(key)
    const listeners = this.#listeners.get(channel) ?? new Set()
    this.#listeners.set(channel, listeners.add(hint))
    const stop = (): void => {
      listeners.delete(hint)
      if (listeners.size > 0 || this.#listeners.get(channel) !== listeners) return
      this.#listeners.delete(channel)
      // If that fails, messages keep coming that nobody reads.
      void this.#hints?.then((client) => client.unsubscribe(channel)).catch(() => undefined)
    }
    try {
      const client = await (this.#hints ??= this.#subscriber())
      await client.subscribe(channel)
      return stop
    } catch (error) {
      stop()
      throw this.#failed(error)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    const own = this.#options.client === undefined ? [this.#commands, this.#hints] : [this.#hints]
    for (const client of own) (await client?.catch(() => undefined))?.disconnect()
    for (const stop of this.#stopCounting) stop()
  }

  #failed(error: unknown): LockError {
    return redisError(error, this.#lastError)
  }

  #client(): Promise<RedisClient> {
    return (this.#commands ??= this.#connect())
  }

  async #connect(): Promise<RedisClient> {
    if (this.#closed) throw unavailable('the store was closed')
    const { url, client } = this.#options
    const made = client ?? (await connect(url ?? ''))
    if (client === undefined) made.on('error', (error: unknown) => void (this.#lastError = error))
    const count = (): void => void (this.breaks += 1)
    // A Cluster tells of each connection by the second.
    this.#stopCounting = ['close', '-node'].map((event) => shareListener(made, event, count))
    return made
  }

  async #subscriber(): Promise<Commands> {
    const commands = await this.#client()
    if (this.#closed) throw unavailable('the store was closed')
    const bare = { keyPrefix: '' }
    const cluster = isCluster(commands)
    // Where ioredis subscribes again by itself, nobody handles a refusal, which ends the process. A Cluster does.
    const single = { ...bare, autoResubscribe: false }
    const client = prepare(cluster ? commands.duplicate([], bare) : commands.duplicate(single))
    client.on('message', (channel: string, message: string) => {
      for (const hint of this.#listeners.get(channel) ?? []) hint(message)
    })
    client.on('ready', () => {
      for (const [channel, hints] of this.#listeners) {
        // What was published in between is lost, so whoever waits has to look.
        const look = (): void => hints.forEach((hint) => hint(''))
        if (cluster) look()
        else void client.subscribe(channel).then(look, look)
      }
    })
    return client
  }
}

// Not typed by ioredis itself: who has no server need not have its types either.
type ClientClass = new (url: string, options: object) => SingleClient

/** The package is only needed by those who use a server. */
export async function loadClient(): Promise<ClientClass> {
  try {
    return (await import('ioredis')).Redis
  } catch (error) {
    if (codeOf(error) !== 'ERR_MODULE_NOT_FOUND') throw error
    throw invalid('redis and tair need the package ioredis: npm install ioredis')
  }
}

async function connect(url: string): Promise<RedisClient> {
  const Redis = await loadClient()
  return prepare(new Redis(url, settings))
}

/** Keeps no process alive while idle or not to be had; its errors reach whoever has a command under way. */
function prepare<C extends Commands>(client: C): C {
  client.on('error', () => undefined)
  client.on('connect', () => {
    if ('stream' in client && hasUnref(client.stream)) client.stream.unref()
  })
  client.on('reconnecting', () => {
    // ioredis has no word for it.
    const timer: unknown = Reflect.get(client, 'reconnectTimeout')
    if (hasUnref(timer)) timer.unref()
  })
  return client
}

/** A client of node-redis has no status. */
function isClient(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const methods = ['call', 'subscribe', 'duplicate', 'disconnect', 'on']
  return (
    methods.every((method) => typeof Reflect.get(value, method) === 'function') &&
    typeof Reflect.get(value, 'status') === 'string'
  )
}

function isCluster(client: RedisClient): client is ClusterClient {
  return 'nodes' in client
}

function optionsOf(client: RedisClient): { readonly keyPrefix: string; readonly db: number } {
  const options: unknown = 'options' in client ? client.options : undefined
  const { keyPrefix, db } = isObject(options) ? options : {}
  return { keyPrefix: typeof keyPrefix === 'string' ? keyPrefix : '', db: typeof db === 'number' ? db : 0 }
}

function isObject(value: unknown): value is { readonly keyPrefix?: unknown; readonly db?: unknown } {
  return typeof value === 'object' && value !== null
}

function hasUnref(value: unknown): value is { unref(): void } {
  return typeof value === 'object' && value !== null && 'unref' in value && typeof value.unref === 'function'
}
