import { isRecord } from '@locks/core/adapter'
import type { Duration } from '@locks/core/adapter'
import { isClient } from './drivers/given.ts'
import type { Cluster, ClusterPlace, ConnectionOptions, Redis } from './drivers/given.ts'

export const declared = {
  adapter: '@locks/redis',
  example: "{ url: 'redis://host' }",
  options: {
    /** `redis://…`, `rediss://…`, `redis+sentinel://…` or `redis+cluster://…`, with options behind `?`. */
    url: {
      kind: 'text',
      must: 'be redis://[user:password@]host[:port][/db], rediss://…, redis+sentinel://… or redis+cluster://…',
      place: true,
    },
    /** Options of ioredis: host, port, db, tls, username, password, sentinels … */
    connection: {
      kind: 'value',
      must: 'be an object of ioredis options',
      type: 'ConnectionOptions',
      json: 'IoredisOptions',
      is: (value: unknown): value is ConnectionOptions => isRecord(value),
      place: true,
    },
    /** `{ nodes, options }` of an ioredis Cluster. */
    cluster: {
      kind: 'value',
      must: 'be { nodes: [{ host, port }, …], options? }',
      type: 'ClusterPlace',
      json: 'IoredisCluster',
      is: (value: unknown): value is ClusterPlace => isClusterPlace(value),
      place: true,
    },
    /** A client of your own: never reconfigured, never closed. A duplicate of it listens for grants. */
    client: {
      kind: 'value',
      must: 'be a Redis or a Cluster of ioredis',
      type: 'Redis | Cluster',
      is: (value: unknown): value is Redis | Cluster => isClient(value),
      place: true,
    },
    /** Connects with TLS, like the scheme `rediss`. */
    tls: { kind: 'boolean', default: false, inUrl: 'only' },
    /** In front of every lock name. With `''` the name is the key, shared with `RLock` of Redisson. */
    prefix: { kind: 'text', default: 'locks:', inUrl: true },
    /** How long a lock that was handed off waits for its new holder to renew it. */
    claimTtlMs: { kind: 'duration', range: [100, 60_000], default: 3_000, inUrl: true },
    /** A grant is undone unless this many replicas have it within `waitForReplicasMs`. */
    waitForReplicas: { kind: 'integer', range: [0, 100], default: 0, inUrl: true },
    /** How long a grant waits for `waitForReplicas`. */
    waitForReplicasMs: { kind: 'duration', range: [1, 4_000], default: 1_000, inUrl: true },
    /** Time without a grant after which the fence of a name expires. The next one is higher. */
    fenceIdleMs: {
      kind: 'duration',
      range: [1_000, 31_536_000_000],
      zero: true,
      otherwise: "a day, or 0 (never) with `prefix: ''`",
      inUrl: true,
    },
    /** What to do about server settings that can lose locks. */
    serverSettings: { kind: 'choice', of: ['warn', 'refuse', 'ignore'], default: 'warn', inUrl: true },
    /** Receives the warnings about server settings. */
    onWarning: {
      kind: 'value',
      must: 'be a function',
      type: '(warning: RedisWarning) => void',
      is: (value: unknown): value is (warning: RedisWarning) => void => typeof value === 'function',
      otherwise: '`process.emitWarning`',
    },
  },
} as const

export type { ClusterPlace } from './drivers/given.ts'

function isClusterPlace(value: unknown): boolean {
  if (!isRecord(value) || !Array.isArray(value['nodes']) || value['nodes'].length === 0) return false
  if (Object.keys(value).some((key) => key !== 'nodes' && key !== 'options')) return false
  return value['options'] === undefined || isRecord(value['options'])
}

/** Where Redis is, by one of `url`, `connection`, `cluster` and `client`, and how locks are kept there. */
// <options RedisOptions>
export interface RedisOptions {
  /** `redis://…`, `rediss://…`, `redis+sentinel://…` or `redis+cluster://…`, with options behind `?`. */
  readonly url?: string
  /** Options of ioredis: host, port, db, tls, username, password, sentinels … */
  readonly connection?: ConnectionOptions
  /** `{ nodes, options }` of an ioredis Cluster. */
  readonly cluster?: ClusterPlace
  /** A client of your own: never reconfigured, never closed. A duplicate of it listens for grants. */
  readonly client?: Redis | Cluster
  /** In front of every lock name. With `''` the name is the key, shared with `RLock` of Redisson. Default: `locks:`. */
  readonly prefix?: string
  /** How long a lock that was handed off waits for its new holder to renew it. Default: 3 s. */
  readonly claimTtlMs?: Duration
  /** A grant is undone unless this many replicas have it within `waitForReplicasMs`. Default: 0. */
  readonly waitForReplicas?: number
  /** How long a grant waits for `waitForReplicas`. Default: 1 s. */
  readonly waitForReplicasMs?: Duration
  /**
   * Time without a grant after which the fence of a name expires. The next one is higher. Default: a day, or 0 (never)
   * with `prefix: ''`.
   */
  readonly fenceIdleMs?: Duration
  /** What to do about server settings that can lose locks. Default: `warn`. */
  readonly serverSettings?: 'warn' | 'refuse' | 'ignore'
  /** Receives the warnings about server settings. Default: `process.emitWarning`. */
  readonly onWarning?: (warning: RedisWarning) => void
}
// </options>

export interface RedisWarning {
  /** `LOCKS_REDIS_EVICTION`: keys may be evicted. `LOCKS_REDIS_UNCHECKED`: the settings could not be read. */
  readonly code: 'LOCKS_REDIS_EVICTION' | 'LOCKS_REDIS_UNCHECKED'
  readonly message: string
}
