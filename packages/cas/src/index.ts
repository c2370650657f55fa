import { invalidOption, settleOptions } from '@locks/core/adapter'
import type { AdapterFactory, Clock, Duration, StoreFactory } from '@locks/core/adapter'
import { casAdapter } from './adapter.ts'
import type { CasCapabilities } from './adapter.ts'
import { Observations } from './observations.ts'
import { declared } from './option-table.ts'
import { settle } from './options.ts'
import { loadLibrary } from './stores/redis-client.ts'

export type { CasCapabilities } from './adapter.ts'
export { storeFrom } from './options.ts'
export { fileStore } from './stores/file.ts'
export type { FileStoreOptions } from './stores/file.ts'
export { memoryStore } from './stores/memory.ts'
export { redisStore } from './stores/redis.ts'
export type { RedisClient, RedisStoreOptions } from './stores/redis-options.ts'
export { tairStore } from './stores/tair.ts'
export type { Put, StoreFactory, Versioned, VersionedStore } from '@locks/core/adapter'

/** Of all stores. */
// <options CasOptions shared>
export interface CasOptions {
  /**
   * Time without a change until a free name's record is dropped, in the background after releases. 0: never. Default: a
   * day.
   */
  readonly fenceIdleMs?: Duration
}
// </options>

/** Locks by compare-and-set on any versioned store: `createLocks(cas(fileStore({ directory })))`. */
export function cas(open: StoreFactory, options: CasOptions = {}): AdapterFactory<CasCapabilities> {
  if (typeof open !== 'function')
    throw invalidOption(declared, 'cas needs a store, such as fileStore({ directory })')
  const { fenceIdleMs } = settleOptions(declared, { ...options, store: 'memory' })
  // All clients with the same clock share what they saw.
  const seen = new WeakMap<Clock, Observations>()
  return (host) => {
    let observations = seen.get(host.clock)
    if (observations === undefined) seen.set(host.clock, (observations = new Observations(host.clock)))
    return casAdapter(open(), host, observations, fenceIdleMs)
  }
}

/** `{ store: 'file', directory }`, `{ store: 'redis', url }`, `{ store: 'memory' }`, or a URL. */
export async function fromConfig(
  options: Readonly<Record<string, unknown>>,
): Promise<AdapterFactory<CasCapabilities>> {
  const { open, needsClient, fenceIdleMs } = settle(options)
  if (needsClient) await loadLibrary()
  return cas(open, { fenceIdleMs })
}
