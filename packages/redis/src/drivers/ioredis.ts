import { systemClock } from '@locks/core/adapter'
import { Cluster, Command, Redis } from 'ioredis'
import type { RedisOptions } from 'ioredis'
import type { ClusterPlace } from '../option-table.ts'

// With `ioredis-sentinels.ts`, the only file that makes ioredis clients and touches their internals.

export type Client = Redis | Cluster

export type Argument = string | number

/** Where to connect: a URL as ioredis reads it, its options, or a Cluster. */
export interface Place {
  readonly url?: string
  readonly connection?: RedisOptions | undefined
  readonly cluster?: ClusterPlace | undefined
}

/** The class says nothing, since a program may have several copies of ioredis. */
export function isCluster(client: Client): client is Cluster {
  return client.isCluster
}

/** A client that asks Sentinels for its primary, and the name they know that by. */
export function behindSentinels(
  client: Client,
): { readonly client: Redis; readonly name: string } | undefined {
  if (isCluster(client) || !client.options.sentinels || !client.options.name) return undefined
  return { client, name: client.options.name }
}

/** What must never be shown. Each node of a Cluster may have its own. */
export function passwordsOf(client: Client): readonly string[] {
  const all = isCluster(client)
    ? [client.options.redisOptions, ...client.nodes('all').map(({ options }) => options)]
    : [client.options]
  return all
    .flatMap((options) => [
      options?.password,
      options && 'sentinelPassword' in options ? options.sentinelPassword : undefined,
    ])
    .filter((password) => typeof password === 'string')
    .filter((password) => password !== '')
}

/** The code of an ioredis failure. By the protocol, the first word of an error reply is its code. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'UNKNOWN'
  if ('code' in error && typeof error.code === 'string') return error.code
  if (error.name === 'ReplyError') return /^[A-Z]+/.exec(error.message)?.[0] ?? 'ERR'
  if (error.message.startsWith('Too many Cluster redirections')) return 'REDIRECTIONS'
  return error.name
}

/** For our own connections: a broken one is noticed within seconds and replaced soon. */
const ownOptions = {
  lazyConnect: true,
  connectTimeout: 3_000,
  // Otherwise a Sentinel that hangs keeps the others from being asked.
  sentinelCommandTimeout: 3_000,
  keepAlive: 10_000,
  maxRetriesPerRequest: 2,
  retryStrategy: (times: number): number => Math.min(20 * 2 ** Math.min(times, 10), 1_000),
  // After a failover the old primary still answers, but only to reads.
  reconnectOnError: (error: Error): boolean => codeOf(error) === 'READONLY',
} as const

const forced = { lazyConnect: true, replyMapping: 'legacy' } as const

/** The only node of a Cluster answers so as a replica, until the connection leads to the next primary. */
const followsMoved = {
  reconnectOnError: (error: Error): boolean =>
    ownOptions.reconnectOnError(error) || codeOf(error) === 'MOVED',
}

export function open({ url, connection, cluster }: Place): Client {
  const options = { ...ownOptions, ...followsMoved, ...connection, ...forced }
  if (cluster === undefined) return loosen(url === undefined ? new Redis(options) : new Redis(url, options))
  const clusterOptions = {
    // It asks any one node whether all is well, and waits forever if that one hangs.
    enableReadyCheck: false,
    ...cluster.options,
    lazyConnect: true,
    redisOptions: { ...ownOptions, ...cluster.options?.redisOptions, ...forced },
  }
  return loosen(new Cluster([...cluster.nodes], clusterOptions))
}

export function copyOf(client: Client): Client {
  return loosen(isCluster(client) ? client.duplicate() : client.duplicate({ lazyConnect: true }))
}

/** A connection for subscriptions to the server of `like`. */
export function subscriberLike(like: Redis): Redis {
  const { lazyConnect, connectTimeout, sentinelCommandTimeout, keepAlive, retryStrategy } = ownOptions
  const subscriber = like.duplicate({
    lazyConnect,
    connectTimeout,
    sentinelCommandTimeout,
    // Its connections to Sentinels would keep the process alive; `Subscriber` reconnects on a switch.
    failoverDetector: false,
    keepAlive,
    retryStrategy,
    // Channels have it already. To SSUBSCRIBE, unlike SUBSCRIBE, a channel is a key and would get it twice.
    keyPrefix: '',
    // Silence is normal here.
    socketTimeout: undefined,
    maxRetriesPerRequest: null,
    enableOfflineQueue: true,
    enableAutoPipelining: false,
    autoResubscribe: false,
    readOnly: false,
  })
  return quiet(subscriber)
}

/**
 * Sends one command. Only ioredis may write to its connections, since it pairs replies with commands by the order of
 * its writes. Our keys already carry its key prefix.
 */
export function send(client: Client, name: string, args: readonly Argument[]): Promise<unknown> {
  const command = new Command(name, [], { replyEncoding: 'utf8' })
  // The constructor would copy them twice more, which costs as much as everything else it does.
  command.args = args.map(String)
  client.sendCommand(command)
  return command.promise
}

/** So many commands leave at once, so that the server begins while this side goes on. */
const MAX_COMMANDS = 16

/** How many commands each stream holds back. */
const gathering = new WeakMap<Redis['stream'], number>()

/**
 * Call before sending on our own client: commands of one turn of the event loop leave together. The stream itself
 * holds them back, so that everything ioredis writes, its handshake too, stays in order.
 */
export function gather(client: Client): void {
  if (isCluster(client) || client.status !== 'ready') return
  const { stream } = client
  const held = gathering.get(stream)
  if (held === undefined) {
    stream.cork()
    gathering.set(stream, 1)
    process.nextTick(flush, stream)
  } else if (held < MAX_COMMANDS) gathering.set(stream, held + 1)
  else {
    stream.uncork()
    stream.cork()
    gathering.set(stream, 1)
  }
}

function flush(stream: Redis['stream']): void {
  gathering.delete(stream)
  stream.uncork()
}

/** The connections of a client. */
export function nodesOf(client: Client): readonly Redis[] {
  return isCluster(client) ? client.nodes('all') : [client]
}

export function primariesOf(client: Client): readonly Redis[] {
  return isCluster(client) ? client.nodes('master') : [client]
}

/** On a Cluster, the connection to the primary that has the key now. */
export function nodeOf(client: Client, key: string): Redis | undefined {
  if (!isCluster(client)) return undefined
  const owner = client.slots[slotOf(key)]?.[0]
  return client.nodes('master').find((node) => placeOf(node) === owner)
}

export function slotOf(key: string): number {
  return Number(new Command('get', [key]).getSlot())
}

/** `host:port` as the client connects to it. */
export function placeOf({ options: { host, port } }: Redis): string {
  return `${host}:${port}`
}

/** `host:port` of the server at the other end; undefined when not connected. */
export function addressOf({ stream }: Partial<Pick<Redis, 'stream'>>): string | undefined {
  return stream?.remoteAddress === undefined ? undefined : `${stream.remoteAddress}:${stream.remotePort}`
}

/** The arguments of a command with the key prefix in front of its keys, and these keys. */
export function prefixed(
  name: string,
  args: string[],
  keyPrefix: string,
): { readonly args: readonly string[]; readonly keys: readonly string[] } {
  const command = new Command(name, args, keyPrefix === '' ? {} : { keyPrefix })
  return { args: command.args.map(String), keys: command.getKeys().map(String) }
}

/** A client that asks Sentinels for its primary must not be disconnected: ioredis would not connect again. */
export function isOpen({ status }: Redis): boolean {
  return status === 'connect' || status === 'ready'
}

/** Ends the present connection, or the one being made; ioredis makes the next. */
export function reconnect(client: Redis): void {
  if (isOpen(client)) client.stream.destroy()
  else client.once('connect', () => client.stream.destroy())
}

/** Whether the program ended the client. Others at their end gave up by themselves, and may be connected again. */
export function wasEnded(client: Client): boolean {
  if (client.status !== 'end') return false
  // ioredis has no public word for it.
  if (Reflect.get(client, 'manuallyClosing') === true) return true
  if (isCluster(client)) return false
  const { retryStrategy, sentinels } = client.options
  const gaveUp = typeof retryStrategy !== 'function' || Reflect.get(client, 'retryAttempts') !== 0
  // It has no stream yet if no Sentinel has named a primary.
  return !gaveUp && (!sentinels || Reflect.get(client, 'stream') !== undefined)
}

/** Whether the server refused to change to the database that a connection is for. */
export function refusesDatabase(error: unknown): error is Error {
  if (codeOf(error) === 'NOAUTH' || !(error instanceof Error) || !('command' in error)) return false
  const { command } = error
  return typeof command === 'object' && command !== null && 'name' in command && command.name === 'select'
}

/** Ends every connection that could deliver the next reply; ioredis makes new ones. */
export function distrust(client: Client, error: Error): void {
  for (const node of nodesOf(client)) if (node.status === 'ready') node.stream.destroy(error)
}

/**
 * The command that has waited longest for its reply. On a new connection that is part of the handshake, which a server
 * that hangs never answers either; one that loads its data answers again and again.
 */
function oldestUnanswered(client: Redis): unknown {
  return isOpen(client) ? client.commandQueue.peekFront() : undefined
}

/** How often silent connections are looked for. A server may take this long to answer. */
export const SILENCE_MS = 3_000

/**
 * Replaces a connection that waits for the same reply at two looks in a row. Otherwise a half-open one would stay for a
 * quarter of an hour. It costs no command anything.
 */
export function watchForSilence(connections: () => readonly Redis[], everyMs: number): NodeJS.Timeout {
  /** What each connection waited for at the last look. */
  const awaited = new WeakMap<Redis, unknown>()
  const look = (): void => {
    for (const one of connections()) {
      const first = oldestUnanswered(one)
      // After a pause of this process the reply may have arrived unread.
      if (first !== undefined && awaited.get(one) === first)
        systemClock.afterPoll?.(() => {
          if (oldestUnanswered(one) === first) one.disconnect(true)
        })
      awaited.set(one, first)
    }
  }
  return setInterval(look, everyMs).unref()
}

/** What an error means shows at 'close', which follows it. */
export function quiet(client: Redis): Redis {
  client.on('error', () => undefined)
  return loosen(client)
}

/** Lets the process end although the connection is open or being retried: core keeps it alive while a caller waits. */
function loosen<C extends Client>(client: C): C {
  if (isCluster(client)) client.on('+node', loosen)
  else client.on('connect', () => void client.stream.unref())
  client.on('reconnecting', () => {
    // ioredis has no public way to this timer.
    const timer: unknown = Reflect.get(client, 'reconnectTimeout')
    if (isTimer(timer)) timer.unref()
  })
  return client
}

function isTimer(value: unknown): value is NodeJS.Timeout {
  return typeof value === 'object' && value !== null && 'unref' in value
}
