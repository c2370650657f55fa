import { settleOptions } from '@locks/core/adapter'
import type { AdapterFactory } from '@locks/core/adapter'
import { memoryAdapter } from './adapter.ts'
import type { MemoryCapabilities, MemoryStore } from './adapter.ts'
import { declared } from './option-table.ts'

export type { MemoryCapabilities } from './adapter.ts'

/** Locks inside this process. Clients of one `memory()` value exclude each other; another value is another store. */
export function memory(): AdapterFactory<MemoryCapabilities> {
  const store: MemoryStore = { entries: new Map(), lastFence: 0n, sweepAt: 0 }
  return (host) => memoryAdapter(store, host)
}

const named = new Map<string, AdapterFactory<MemoryCapabilities>>()

/** `memory:` and `memory:name` share one store per name throughout the process. */
export function fromConfig(options: Readonly<Record<string, unknown>>): AdapterFactory<MemoryCapabilities> {
  const { url } = settleOptions(declared, options)
  let factory = named.get(url)
  if (factory === undefined) named.set(url, (factory = memory()))
  return factory
}
