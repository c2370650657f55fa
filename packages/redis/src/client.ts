import type { Cluster, Redis } from 'ioredis'

/** By its own word: a program may have several copies of ioredis. */
export function isCluster(client: Redis | Cluster): client is Cluster {
  return client.isCluster
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
