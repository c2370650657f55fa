import type { RedisClient } from './stores/redis-options.ts'

export const declared = {
  adapter: '@locks/cas',
  by: 'store',
  options: {
    /** `file`: a directory. `redis`, `tair`: a server. `memory`: this process alone, for tests. */
    store: {
      kind: 'choice',
      of: ['memory', 'file', 'redis', 'tair'],
      otherwise: 'by the `url`, which then begins with `file:` or `tair:`',
    },
    /** An existing directory on a local file system, writable and for these locks alone. */
    directory: { kind: 'text', matches: '.+', must: 'be a path', required: true, only: ['file'] },
    /** Use the directory although it is on a network file system. */
    trustFileSystem: { kind: 'boolean', default: false, only: ['file'] },
    /** `redis://…`, `rediss://…` or `tair://…`; without `store` also `file:/path/to/directory`. */
    url: { kind: 'text', must: 'be a URL', place: true, only: ['redis', 'tair', undefined] },
    /** An ioredis client of your own. It is not closed; hints come by a duplicate of it. */
    client: {
      kind: 'value',
      must: 'be a Redis or a Cluster of ioredis',
      type: 'RedisClient',
      is: (value: unknown): value is RedisClient => looksLikeClient(value),
      place: true,
      only: ['redis', 'tair'],
    },
    /** In front of every key and channel. */
    prefix: { kind: 'text', default: 'locks:cas:', only: ['redis', 'tair', undefined], inUrl: true },
    /** Clients of one name share a store, in configs. */
    name: { kind: 'text', default: '', only: ['memory'] },
    /** Time without a change until a free name's record is dropped, in the background after releases. 0: never. */
    fenceIdleMs: {
      kind: 'duration',
      range: [1_000, 31_536_000_000],
      zero: true,
      default: 86_400_000,
      inUrl: true,
    },
  },
} as const

/** As `isClient` of @locks/redis, which may not be installed. A client of node-redis has no status. */
function looksLikeClient(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const field = (name: string): unknown => Reflect.get(value, name)
  return (
    ['sendCommand', 'duplicate', 'disconnect', 'on'].every((method) => typeof field(method) === 'function') &&
    typeof field('isCluster') === 'boolean' &&
    typeof field('status') === 'string' &&
    typeof field('options') === 'object'
  )
}
