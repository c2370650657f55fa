/**
 * A store for child processes, which cannot load TypeScript: grants, renews and frees in memory.
 *
 * @param {{ silent?: boolean }} [options]
 * @returns {import('@locks/core').AdapterFactory}
 */
export function plainStore({ silent = false } = {}) {
  /** @type {Map<string, string>} */
  const holders = new Map()
  let fence = 0n
  return () => ({
    capabilities: {
      scope: 'process',
      kind: 'lease',
      fencing: 'durable',
      wait: 'poll',
      fairness: 'none',
      handover: false,
      lockDelay: false,
      minHold: false,
      list: false,
      break: false,
      modes: ['exclusive'],
      minTtlMs: 10,
      maxNameBytes: 1024,
    },
    async attempt({ name, attemptId, ttlMs }) {
      if (silent) return new Promise(() => undefined)
      const holder = holders.get(name)
      if (holder !== undefined && holder !== attemptId) return { busy: true }
      holders.set(name, attemptId)
      fence += 1n
      return { name, attemptId, ttlMs, fence }
    },
    async withdraw() {},
    async renew(renewals) {
      return renewals.map(() => 'renewed')
    },
    async release({ name }) {
      holders.delete(name)
      return 'released'
    },
    async inspect(name) {
      return { name, held: holders.has(name) }
    },
    async close() {},
  })
}
