import { errorsOf } from '@locks/core/adapter'
import type { AdapterFactory } from '@locks/core/adapter'
import { memoryAdapter } from './adapter.ts'
import type { MemoryCapabilities, MemoryStore } from './adapter.ts'

export type { MemoryCapabilities } from './adapter.ts'

/** Locks inside this process. Clients of one `memory()` value exclude each other; another value is another store. */
export function memory(): AdapterFactory<MemoryCapabilities> {
  const store: MemoryStore = { entries: new Map(), lastFence: 0n, sweepAt: 0 }
  return (host) => memoryAdapter(store, host)
}

const { invalid } = errorsOf('@locks/memory')

const named = new Map<string, AdapterFactory<MemoryCapabilities>>()

/** `memory:` and `memory:name` share one store per name throughout the process. */
export function fromConfig(options: Readonly<Record<string, unknown>>): AdapterFactory<MemoryCapabilities> {
  const { url = 'memory:', ...unknown } = options
  const [extra] = Object.keys(unknown)
  if (extra !== undefined) throw invalid(`unknown key ${JSON.stringify(extra)}; known: url`)
  if (typeof url !== 'string' || !/^memory:[\w.-]*$/.test(url))
    throw invalid('url must be memory: or memory:name (letters, digits, _ . -)')
  let factory = named.get(url)
  if (factory === undefined) named.set(url, (factory = memory()))
  return factory
}
