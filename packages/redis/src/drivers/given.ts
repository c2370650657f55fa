import type { Cluster, ClusterNode, ClusterOptions, Redis } from 'ioredis'

// What a program may give, without importing a client library.

export type { Cluster, Redis, RedisOptions as ConnectionOptions } from 'ioredis'

export type Client = Redis | Cluster

/** Nodes and options of an ioredis Cluster. */
export interface ClusterPlace {
  readonly nodes: readonly ClusterNode[]
  readonly options?: ClusterOptions
}

/** Whether a value is a client of any copy of ioredis. A client of node-redis has no status. */
export function isClient(value: unknown): value is Client {
  if (typeof value !== 'object' || value === null) return false
  const field = (name: string): unknown => Reflect.get(value, name)
  const methods = ['sendCommand', 'duplicate', 'disconnect', 'on']
  return (
    methods.every((method) => typeof field(method) === 'function') &&
    typeof field('isCluster') === 'boolean' &&
    typeof field('status') === 'string' &&
    typeof field('options') === 'object'
  )
}
