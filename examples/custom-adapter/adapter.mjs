import { capabilities } from '@locks/core/adapter'
import { openStore } from './store.mjs'

/** @typedef {Required<Pick<import('@locks/core/adapter').Holder, 'owner' | 'metadata' | 'since'>>} Described */
/** @typedef {Described & { attemptId: string, expiresAt: number }} Hold */
/** @typedef {{ fence: number, hold?: Hold }} LockRecord What is stored for a name. The fence outlives the hold. */

/** Locks on the versioned store at `url`. @param {string} url @returns {import('@locks/core/adapter').AdapterFactory} */
export function httpLocks(url) {
  const store = openStore(url)

  /**
   * Reads a record and writes what `decide` makes of it. If another client wrote in between, it decides again.
   * Times are the store's: a hold whose time is over does not count.
   *
   * @template const T
   * @param {string} name
   * @param {(current: LockRecord, now: number, write: (next: LockRecord) => void) => T} decide
   * @returns {Promise<T>}
   */
  async function update(name, decide) {
    for (;;) {
      const { value, version, now } = await store.get(name)
      /** @type {LockRecord} */
      const { fence, hold } = value === undefined ? { fence: 0 } : JSON.parse(value)
      const current = hold !== undefined && now < hold.expiresAt ? { fence, hold } : { fence }
      /** @type {LockRecord | undefined} */
      let written
      const answer = decide(current, now, (next) => (written = next))
      if (written === undefined || (await store.put(name, JSON.stringify(written), version))) return answer
    }
  }

  return () => ({
    capabilities: capabilities({ fencing: 'clock-assisted' }),

    attempt: ({ name, attemptId, owner, metadata, ttlMs }) =>
      update(name, ({ fence: last, hold }, now, write) => {
        if (hold !== undefined && hold.attemptId !== attemptId)
          return { busy: true, holder: holderOf(last, hold), retryInMs: hold.expiresAt - now }
        // Ours already if an earlier reply was lost: the same fence, and a fresh ttl. Otherwise a new fence, above
        // the store's clock: it rises even if the store has lost its data.
        const fence = hold === undefined ? Math.max(last + 1, now) : last
        const { since, expiresAt } = hold ?? { since: now, expiresAt: 0 }
        const end = Math.max(expiresAt, now + ttlMs)
        write({ fence, hold: { attemptId, owner, metadata, since, expiresAt: end } })
        return { name, attemptId, fence: BigInt(fence), ttlMs }
      }),

    renew: (renewals) =>
      Promise.all(
        renewals.map(({ grant: { name, attemptId }, ttlMs }) =>
          update(name, ({ fence, hold }, now, write) => {
            if (hold?.attemptId !== attemptId) return 'lost'
            write({ fence, hold: { ...hold, expiresAt: Math.max(hold.expiresAt, now + ttlMs) } })
            return 'renewed'
          }),
        ),
      ),

    release: ({ name, attemptId }) =>
      update(name, ({ fence, hold }, _, write) => {
        const held = hold?.attemptId === attemptId
        // Written in any case: the new version defeats a write of this attempt that arrives late.
        write(held || hold === undefined ? { fence } : { fence, hold })
        return held ? 'released' : 'not-held'
      }),

    inspect: (name) =>
      update(name, ({ fence, hold }, now) => {
        if (hold === undefined) return { name, held: false }
        return { name, held: true, holder: holderOf(fence, hold), remainingMs: hold.expiresAt - now }
      }),
  })
}

/** Without the attempt id, which is a secret. @param {number} fence @param {Hold} hold */
function holderOf(fence, { owner, metadata, since }) {
  return { owner, metadata, since, fence: BigInt(fence) }
}
