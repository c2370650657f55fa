import type { AdapterFactory } from '@locks/core/adapter'
import { redisAdapter } from './adapter.ts'
import type { RedisCapabilities } from './adapter.ts'
import { invalid } from './errors.ts'
import { settle } from './options.ts'
import type { RedisOptions } from './options.ts'

export type { RedisCapabilities } from './adapter.ts'
export { redisGuard } from './guard.ts'
export type { RedisGuard } from './guard.ts'
export type { RedisOptions, RedisWarning } from './options.ts'

/** Locks in one Redis: a single server, one watched by Sentinels, or a Cluster. Connects when first used. */
export function redis(options: RedisOptions): AdapterFactory<RedisCapabilities> {
  const settings = settle(options)
  return (host) => redisAdapter(settings, host)
}

export function fromConfig(options: Readonly<Record<string, unknown>>): AdapterFactory<RedisCapabilities> {
  for (const key of ['client', 'onWarning'])
    if (options[key] !== undefined) throw invalid(`${key} is not for config; use redis({ ${key} })`)
  const settings = settle(options)
  return (host) => redisAdapter(settings, host)
}
