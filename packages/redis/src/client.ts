import type { Cluster, Redis } from 'ioredis'

/** By its own word: a program may have several copies of ioredis. */
export function isCluster(client: Redis | Cluster): client is Cluster {
  return client.isCluster
}

/** A program may have several copies of ioredis, so the class says nothing. A client of node-redis has no status. */
export function isClient(value: unknown): value is Redis | Cluster {
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

/** What must never be shown. The nodes of a Cluster may each have another. */
export function passwordsOf(client: Redis | Cluster): readonly string[] {
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
