import type { Put, StoreFactory, Versioned, VersionedStore } from '@locks/core/adapter'

/** A versioned store inside this process: for tests, and as the shortest example. */
export function memoryStore(): StoreFactory {
  const records = new Map<string, Versioned & { readonly putAt: number }>()
  /** The highest version that was dropped. */
  let floor = 0n
  const watchers = new Map<string, Set<(current?: Versioned) => void>>()

  const store: VersionedStore = {
    scope: 'process',
    fencing: 'durable',

    async get(key) {
      return plain(records.get(key))
    },

    async put(key, value, expected): Promise<Put> {
      const current = records.get(key)
      if (current?.version !== expected) return { conflict: true, current: plain(current) }
      const next = { value, version: (current?.version ?? floor) + 1n }
      records.set(key, { ...next, putAt: performance.now() })
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
      for (const { value, version } of records.values()) yield { value, version }
    },

    async *prune(idleMs, isOver, _, keys) {
      let dropped = 0
      for (const [key, { value, version, putAt }] of records) {
        if (keys?.includes(key) === false) continue
        if (performance.now() - putAt < idleMs || !isOver({ value, version })) continue
        if (version > floor) floor = version
        records.delete(key)
        dropped += 1
      }
      yield dropped
    },

    async close() {},
  }
  return () => store
}

function plain(current: Versioned | undefined): Versioned | undefined {
  return current && { value: current.value, version: current.version }
}
