import { settleOptions } from '@locks/core/adapter'
import { createClient } from './client.mjs'

/** @typedef {import('./server.mjs').Entry} Entry */

const capabilities = /** @type {const} */ ({
  scope: 'cluster',
  kind: 'lease',
  // After a restart of the server, revisions continue from its clock.
  fencing: 'clock-assisted',
  wait: 'poll',
  fairness: 'none',
  handover: false,
  lockDelay: false,
  minHold: false,
  list: true,
  break: true,
  modes: ['exclusive'],
  minTtlMs: 50,
  maxNameBytes: 512,
})

/**
 * Locks on the key-value server at `host` and `port`: a lock is an entry, its holder is the writer, its fence the
 * revision.
 *
 * @param {{ host: string, port: number }} address
 * @returns {import('@locks/core').AdapterFactory<typeof capabilities>}
 */
export function keyValue(address) {
  return () => {
    const client = createClient(address)
    /** @param {import('./server.mjs').Call} call @returns {Promise<{ done: boolean, entry: Entry | null }>} */
    const change = (call) => client.call(call)

    return {
      capabilities,

      async attempt({ name: key, attemptId, owner, ttlMs, metadata }) {
        const value = JSON.stringify({ owner, metadata, since: Date.now() })
        const { done, entry } = await change({ op: 'add', key, value, writer: attemptId, ttlMs })
        if (entry === null) throw new Error(`${key} ended while it was asked for`)
        const grant = { name: key, attemptId, fence: BigInt(entry.revision), ttlMs }
        if (done) return grant
        // Our own entry: the reply to an earlier attempt was lost. Return the same fence and a fresh ttl.
        if (entry.writer === attemptId) {
          const again = await change({ op: 'prolong', key, writer: attemptId, ttlMs })
          if (again.done) return grant
          throw new Error(`${key} ended while it was asked for`)
        }
        return { busy: true, holder: holderOf(entry), retryInMs: Math.ceil(entry.remainingMs) }
      },

      async withdraw({ name: key, attemptId }) {
        await change({ op: 'delete', key, writer: attemptId })
      },

      renew: (renewals) =>
        Promise.all(
          renewals.map(async ({ grant, ttlMs }) => {
            const { name: key, attemptId: writer } = grant
            const { done } = await change({ op: 'prolong', key, writer, ttlMs })
            return done ? 'renewed' : 'lost'
          }),
        ),

      async release({ name: key, attemptId: writer }) {
        const { done } = await change({ op: 'delete', key, writer })
        return done ? 'released' : 'not-held'
      },

      async inspect(name) {
        const { entry } = await change({ op: 'get', key: name })
        return entry === null ? { name, held: false } : stateOf(entry)
      },

      async list(limit) {
        /** @type {Entry[]} */
        const entries = await client.call({ op: 'list' })
        return entries.slice(0, limit).map(stateOf)
      },

      async break(key, { fence }) {
        const { done } = await change({ op: 'delete', key, revision: String(fence) })
        return done ? 'broken' : 'not-held'
      },

      close: async () => client.close(),
    }
  }
}

/** Lets a config name this module: `{ adapter: './adapter.mjs', url }`. @param {Readonly<Record<string, unknown>>} options */
export function fromConfig(options) {
  const { hostname, port } = new URL(settleOptions(declared, options).url)
  return keyValue({ host: hostname, port: Number(port) })
}

const declared = /** @type {const} */ ({
  adapter: 'custom-adapter',
  options: {
    /** Where the server is. */
    url: {
      kind: 'text',
      matches: String.raw`tcp://[\w.-]+:\d+`,
      must: 'be tcp://host:port',
      required: true,
    },
  },
})

/** @param {Entry} entry @returns {import('@locks/core').Holder} */
function holderOf({ value, revision }) {
  const { owner, metadata, since } = JSON.parse(value)
  return { owner, metadata, since, fence: BigInt(revision) }
}

/** @param {Entry} entry @returns {import('@locks/core').LockState} */
function stateOf(entry) {
  return { name: entry.key, held: true, holder: holderOf(entry), remainingMs: entry.remainingMs }
}
