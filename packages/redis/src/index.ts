import type { AdapterFactory } from '@locks/core/adapter'
import { redisAdapter } from './adapter.ts'
import type { RedisCapabilities } from './adapter.ts'
import type { RedisOptions } from './option-table.ts'
import { settle } from './options.ts'

export type { RedisCapabilities } from './adapter.ts'
export { redisGuard } from './guard.ts'
export type { RedisGuard } from './guard.ts'
export type { ClusterPlace, RedisOptions, RedisWarning } from './option-table.ts'

/** Locks in one Redis: a single server, one watched by Sentinels, or a Cluster. Connects when first used. */
export function redis(options: RedisOptions): AdapterFactory<RedisCapabilities> {
  const settings = settle(options)
  return (host) => redisAdapter(settings, host)
}

export function fromConfig(options: Readonly<Record<string, unknown>>): AdapterFactory<RedisCapabilities> {
  return redis(options)
}
