import type { Cluster, Redis } from 'ioredis'

/** The class says nothing, since a program may have several copies of ioredis. */
export function isCluster(client: Redis | Cluster): client is Cluster {
  return client.isCluster
}

/** Whether a value is a client of any copy of ioredis. A client of node-redis has no status. */
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

/** What must never be shown. Each node of a Cluster may have its own. */
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
