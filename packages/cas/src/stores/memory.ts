import type { Put, StoreFactory, Versioned, VersionedStore } from '../versioned-store.ts'

/** A versioned store inside this process: for tests, and the shortest one there can be. */
export function memoryStore(): StoreFactory {
  const records = new Map<string, Versioned>()
  const watchers = new Map<string, Set<(current?: Versioned) => void>>()

  const store: VersionedStore = {
    scope: 'process',
    fencing: 'durable',

    async get(key) {
      return records.get(key)
    },

    async put(key, value, expected): Promise<Put> {
      const current = records.get(key)
      if (current?.version !== expected) return { conflict: true, current }
      const next = { value, version: (current?.version ?? 0n) + 1n }
      records.set(key, next)
      for (const hint of watchers.get(key) ?? []) hint(next)
      return { version: next.version }
    },

    async watch(key, hint) {
      const hints = watchers.get(key) ?? new Set()
      watchers.set(key, hints.add(hint))
      return () => {
        hints.delete(hint)
        if (hints.size === 0 && watchers.get(key) === hints) watchers.delete(key)
      }
    },

    now: () => Promise.resolve(performance.now()),

    async *values() {
      yield* records.values()
    },

    async close() {},
  }
  return () => store
}
