import type { Cluster, ClusterNode, ClusterOptions, Redis, RedisOptions as ConnectionOptions } from 'ioredis'
import { fenceIdleOf, toMs, whatIs } from '@locks/core'
import type { Duration } from '@locks/core'
import { isClient } from './client.ts'
import { invalid } from './errors.ts'
import { parseUrl } from './url.ts'

/** Where Redis is, by one of `url`, `connection`, `cluster` and `client`, and how locks are kept there. */
export interface RedisOptions {
  /** `redis:`, `rediss:`, `redis+sentinel:` or `redis+cluster:`. */
  readonly url?: string
  /** As ioredis has them: host, port, db, tls, username, password, sentinels … */
  readonly connection?: ConnectionOptions
  /** What to make an ioredis Cluster of. */
  readonly cluster?: { readonly nodes: readonly ClusterNode[]; readonly options?: ClusterOptions }
  /** Yours: it is used, never reconfigured and never closed. A second connection like it listens for grants. */
  readonly client?: Redis | Cluster
  /**
   * In front of every lock name, behind the `keyPrefix` of ioredis. Default: `locks:`. With `''` the name of a lock is
   * its key, as in Redisson: services with Redisson's `RLock` and this adapter then exclude each other.
   */
  readonly prefix?: string
  /** How long a lock that was handed over waits for its new holder to renew it: 2 s unless told. */
  readonly claimTtlMs?: Duration
  /** A grant that not so many replicas have within `waitForReplicasMs` is undone. 0 unless told. */
  readonly waitForReplicas?: number
  /** 1 s unless told. */
  readonly waitForReplicasMs?: Duration
  /**
   * After so long without a grant Redis drops the fence of a name; its next one is the server's time, which is higher.
   * Default: a day, or 0 (never) with `prefix: ''`, since Redisson's fences are counted from that key alone.
   */
  readonly fenceIdleMs?: Duration
  /** What to do about server settings that can lose locks: `warn` unless told. */
  readonly serverSettings?: 'warn' | 'refuse' | 'ignore'
  /** Gets the warnings instead of `process.emitWarning`. */
  readonly onWarning?: (warning: RedisWarning) => void
}

export interface RedisWarning {
  /** `LOCKS_REDIS_EVICTION`: keys may be evicted. `LOCKS_REDIS_UNCHECKED`: the settings could not be read. */
  readonly code: 'LOCKS_REDIS_EVICTION' | 'LOCKS_REDIS_UNCHECKED'
  readonly message: string
}

/** Options with every default filled in. */
export interface RedisSettings {
  readonly client: Redis | Cluster | undefined
  readonly connection: ConnectionOptions
  readonly cluster: RedisOptions['cluster']
  readonly prefix: string
  readonly claimTtlMs: number
  readonly waitForReplicas: number
  readonly waitForReplicasMs: number
  readonly fenceIdleMs: number
  readonly serverSettings: 'warn' | 'refuse' | 'ignore'
  readonly onWarning: (warning: RedisWarning) => void
}

/** Keeps locks apart from what applications have in the same Redis. */
const DEFAULT_PREFIX = 'locks:'

const places = ['url', 'connection', 'cluster', 'client'] as const
const ranges = new Map<string, readonly [min: number, max: number]>([
  ['claimTtlMs', [100, 60_000]],
  ['waitForReplicas', [0, 100]],
  ['waitForReplicasMs', [1, 4_000]],
])
const texts = ['prefix', 'serverSettings']
const known = new Set([...places, ...ranges.keys(), ...texts, 'fenceIdleMs', 'onWarning'])

/** Validates what came from a program or from JSON alike. */
export function settle(options: unknown): RedisSettings {
  if (!isRecord(options)) throw invalid("options must be an object, such as { url: 'redis://host' }")
  for (const key of Object.keys(options))
    if (!known.has(key)) throw invalid(`unknown key ${JSON.stringify(key)}; known: ${[...known].join(', ')}`)
  const given = places.filter((place) => options[place] !== undefined)
  if (given.length === 0 && 'client' in options)
    throw invalid('client must be a Redis or a Cluster of ioredis, not undefined')
  if (given.length !== 1) throw invalid(`exactly one of ${places.join(', ')} must be given`)
  const place: Place = options['url'] === undefined ? placeOf(options) : parseUrl(options['url'])
  const all: Record<string, unknown> = { ...options, ...place.extra }
  const prefix = textOf(all, 'prefix') ?? DEFAULT_PREFIX
  const idle = all['fenceIdleMs'] ?? (prefix === '' ? 0 : undefined)
  return {
    client: place.client,
    connection: place.connection ?? {},
    cluster: place.cluster,
    prefix,
    fenceIdleMs: fenceIdleOf(idle, invalid),
    claimTtlMs: integerOf(all, 'claimTtlMs') ?? 2_000,
    waitForReplicas: integerOf(all, 'waitForReplicas') ?? 0,
    waitForReplicasMs: integerOf(all, 'waitForReplicasMs') ?? 1_000,
    serverSettings: serverSettingsOf(textOf(all, 'serverSettings') ?? 'warn'),
    onWarning: onWarningOf(all['onWarning']),
  }
}

interface Place {
  readonly client?: Redis | Cluster | undefined
  readonly connection?: ConnectionOptions | undefined
  readonly cluster?: RedisOptions['cluster']
  /** Options from behind the question mark of a URL. */
  readonly extra?: Readonly<Record<string, string>>
}

function placeOf({ client, connection, cluster }: Readonly<Record<string, unknown>>): Place {
  if (client !== undefined) {
    if (!isClient(client))
      throw invalid(`client must be a Redis or a Cluster of ioredis, not ${whatIs(client)}`)
    return { client }
  }
  if (connection !== undefined) {
    if (!isConnection(connection)) throw invalid('connection must be an object of ioredis options')
    return { connection }
  }
  if (!isCluster(cluster)) throw invalid('cluster must be { nodes: [{ host, port }, …], options? }')
  return { cluster }
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isConnection(value: unknown): value is ConnectionOptions {
  return isRecord(value)
}

function isCluster(value: unknown): value is NonNullable<RedisOptions['cluster']> {
  if (!isRecord(value) || !Array.isArray(value['nodes']) || value['nodes'].length === 0) return false
  if (Object.keys(value).some((key) => key !== 'nodes' && key !== 'options')) return false
  return value['options'] === undefined || isRecord(value['options'])
}

function integerOf(options: Readonly<Record<string, unknown>>, key: string): number | undefined {
  const value = key.endsWith('Ms') ? toMs(options[key]) : options[key]
  if (value === undefined) return undefined
  const [min, max] = ranges.get(key) ?? [0, 0]
  const number = typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : value
  if (typeof number !== 'number' || !Number.isInteger(number) || number < min || number > max)
    throw invalid(`${key} must be a whole number from ${min} to ${max}`)
  return number
}

function textOf(options: Readonly<Record<string, unknown>>, key: string): string | undefined {
  const value = options[key]
  if (value !== undefined && typeof value !== 'string') throw invalid(`${key} must be a string`)
  return value
}

function serverSettingsOf(value: string): RedisSettings['serverSettings'] {
  if (value === 'warn' || value === 'refuse' || value === 'ignore') return value
  throw invalid('serverSettings must be warn, refuse or ignore')
}

function isListener(value: unknown): value is RedisSettings['onWarning'] {
  return typeof value === 'function'
}

function onWarningOf(value: unknown): RedisSettings['onWarning'] {
  if (value === undefined)
    return ({ code, message }) => process.emitWarning(message, { type: 'LocksWarning', code })
  if (!isListener(value)) throw invalid('onWarning must be a function')
  return value
}
