import { fenceIdleOf } from '@locks/core'
import type { AdapterFactory, Clock, Duration } from '@locks/core'
import { casAdapter } from './adapter.ts'
import type { CasCapabilities } from './adapter.ts'
import { invalid } from './errors.ts'
import { Observations } from './observations.ts'
import { needsClient, storeFrom } from './options.ts'
import { loadClient } from './stores/redis-client.ts'
import type { StoreFactory } from './versioned-store.ts'

export type { CasCapabilities } from './adapter.ts'
export { storeFrom } from './options.ts'
export { fileStore } from './stores/file.ts'
export type { FileStoreOptions } from './stores/file.ts'
export { memoryStore } from './stores/memory.ts'
export { redisStore } from './stores/redis.ts'
export type { RedisClient, RedisStoreOptions } from './stores/redis-client.ts'
export { tairStore } from './stores/tair.ts'
export type { Put, StoreFactory, Versioned, VersionedStore } from './versioned-store.ts'

export interface CasOptions {
  /**
   * After so long without a change the record of a free name is dropped, behind releases. Default: a day; 0 for
   * never.
   */
  readonly fenceIdleMs?: Duration
}

/** Locks by compare-and-set on any versioned store: `createLocks(cas(fileStore({ directory })))`. */
export function cas(open: StoreFactory, options: CasOptions = {}): AdapterFactory<CasCapabilities> {
  if (typeof open !== 'function') throw invalid('cas needs a store, such as fileStore({ directory })')
  const fenceIdleMs = fenceIdleOf(options.fenceIdleMs, invalid)
  // What one client saw holds for all that share its clock.
  const seen = new WeakMap<Clock, Observations>()
  return (host) => {
    let observations = seen.get(host.clock)
    if (observations === undefined) seen.set(host.clock, (observations = new Observations(host.clock)))
    return casAdapter(open(), host, observations, fenceIdleMs)
  }
}

/** `{ store: 'file', directory }`, `{ store: 'redis', url }`, `{ store: 'tair', url }`, `{ store: 'memory' }`, or a URL. */
export async function fromConfig(
  options: Readonly<Record<string, unknown>>,
): Promise<AdapterFactory<CasCapabilities>> {
  const { fenceIdleMs, ...rest } = options
  const open = storeFrom(rest)
  const idle = { fenceIdleMs: fenceIdleOf(fenceIdleMs, invalid) }
  if (needsClient(rest)) await loadClient()
  return cas(open, idle)
}
