import { systemClock } from '@locks/core/adapter'
import { Cluster, Redis } from 'ioredis'
import type { Client, ClusterPlace, ConnectionOptions } from './given.ts'

// How clients of ioredis are made, and their connections replaced.

/** Where to connect: a URL as ioredis reads it, its options, or a Cluster. */
export interface Place {
  readonly url?: string
  readonly connection?: ConnectionOptions | undefined
  readonly cluster?: ClusterPlace | undefined
}

/** The class says nothing, since a program may have several copies of ioredis. */
export function isCluster(client: Client): client is Cluster {
  return client.isCluster
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

/** What was sent and not answered when a connection ended would otherwise never settle. */
const settles = { autoResendUnfulfilledCommands: true } as const

const forced = { ...settles, lazyConnect: true, replyMapping: 'legacy' } as const

/**
 * Without a ready check, 5 sends commands before the server has replied to SELECT: they would run in database 0 if it
 * refuses. And 5.8 to 5.11 take a connection that ended in its handshake for ready, and never make another one.
 */
function sound({ enableReadyCheck, db }: ConnectionOptions): ConnectionOptions {
  if (enableReadyCheck !== false) return {}
  return db ? { enableReadyCheck: true } : { disableClientInfo: true, connectionName: undefined }
}

/** The only node of a Cluster answers so as a replica, until the connection leads to the next primary. */
const followsMoved = {
  reconnectOnError: (error: Error): boolean =>
    ownOptions.reconnectOnError(error) || codeOf(error) === 'MOVED',
}

/** A copy of ioredis. */
export interface Library {
  readonly Redis: typeof Redis
  readonly Cluster: typeof Cluster
}

export function openClient(
  { url, connection, cluster }: Place,
  library: Library = { Redis, Cluster },
): Client {
  const options = { ...ownOptions, ...followsMoved, ...connection, ...sound(connection ?? {}), ...forced }
  if (cluster === undefined)
    return loosen(url === undefined ? new library.Redis(options) : new library.Redis(url, options))
  const clusterOptions = {
    // It asks any one node whether all is well, and waits forever if that one hangs.
    enableReadyCheck: false,
    ...cluster.options,
    lazyConnect: true,
    redisOptions: { ...ownOptions, ...cluster.options?.redisOptions, ...forced },
  }
  return loosen(new library.Cluster([...cluster.nodes], clusterOptions))
}

export function copyOf(client: Client): Client {
  if (isCluster(client)) return loosen(client.duplicate())
  const db = databaseOf(client)
  return loosen(client.duplicate({ ...settles, ...sound({ ...client.options, db }), db, lazyConnect: true }))
}

/** The database that the commands of a client are for: the program may have selected another than it was made with. */
export function databaseOf(client: Redis): number {
  return selectedBefore(client) ?? client.condition?.select ?? client.options.db ?? 0
}

/** Whether commands would run in another database than those before the last connection ended, until it is ready. */
export function strays(client: Redis): boolean {
  const before = selectedBefore(client)
  return before !== undefined && before !== client.condition?.select
}

/** Of the last connection that was ready, until the next one is. */
function selectedBefore(client: Redis): number | undefined {
  const before: unknown = Reflect.get(client, 'prevCondition')
  if (typeof before !== 'object' || before === null || !('select' in before)) return undefined
  return typeof before.select === 'number' ? before.select : undefined
}

/** A connection for subscriptions to the server of `like`. */
export function subscriberLike(like: Redis): Redis {
  const { lazyConnect, connectTimeout, sentinelCommandTimeout, keepAlive, retryStrategy } = ownOptions
  const subscriber = like.duplicate({
    ...settles,
    ...sound({ ...like.options, db: 0 }),
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

/** A client that asks Sentinels for its primary must not be disconnected: ioredis would not connect again. */
export function isOpen({ status }: Redis): boolean {
  return status === 'connect' || status === 'ready'
}

/** Ends the present connection, or the one being made; ioredis makes the next. */
export function reconnect(client: Redis): void {
  if (isOpen(client)) client.stream.destroy()
  else client.once('connect', () => client.stream.destroy())
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
