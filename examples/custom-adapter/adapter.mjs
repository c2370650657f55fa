import { capabilities } from '@locks/core/adapter'
import { openStore } from './store.mjs'

/** @typedef {Required<Pick<import('@locks/core').Holder, 'owner' | 'metadata' | 'since'>>} Described */
/** @typedef {Described & { attemptId: string, expiresAt: number }} Hold */
/** @typedef {{ fence: number, hold?: Hold }} LockRecord What is stored for a name. The fence outlives the hold. */

/** Locks on the versioned store at `url`. @param {string} url @returns {import('@locks/core').AdapterFactory} */
export function httpLocks(url) {
  const store = openStore(url)

  /**
   * Reads a record and writes what `decide` makes of it. If another client wrote in between, it decides again.
   * Times are the store's: a hold whose time is over does not count.
   *
   * @template T
   * @param {string} name
   * @param {(current: LockRecord, now: number) => { answer: T, write?: LockRecord }} decide
   * @returns {Promise<T>}
   */
  async function update(name, decide) {
    for (;;) {
      const { value, version, now } = await store.get(name)
      /** @type {LockRecord} */
      const { fence, hold } = value === undefined ? { fence: 0 } : JSON.parse(value)
      const { answer, write } = decide(hold && now < hold.expiresAt ? { fence, hold } : { fence }, now)
      if (write === undefined || (await store.put(name, JSON.stringify(write), version))) return answer
    }
  }

  return () => ({
    capabilities: capabilities({ fencing: 'clock-assisted' }),

    attempt: ({ name, attemptId, owner, metadata, ttlMs }) =>
      update(name, ({ fence, hold }, now) => {
        if (hold !== undefined && hold.attemptId !== attemptId)
          return { answer: { busy: true, holder: holderOf(fence, hold), retryInMs: hold.expiresAt - now } }
        // Ours already if an earlier reply was lost: the same fence and a fresh ttl. A new fence starts at the
        // store's clock, so that it rises even if the store lost its data.
        const minted = hold === undefined ? Math.max(fence + 1, now) : fence
        const { since, expiresAt } = hold ?? { since: now, expiresAt: 0 }
        const mine = { attemptId, owner, metadata, since, expiresAt: Math.max(expiresAt, now + ttlMs) }
        const grant = { name, attemptId, fence: BigInt(minted), ttlMs }
        return { answer: grant, write: { fence: minted, hold: mine } }
      }),

    renew: (renewals) =>
      Promise.all(
        renewals.map(({ grant: { name, attemptId }, ttlMs }) =>
          update(name, ({ fence, hold }, now) => {
            if (hold?.attemptId !== attemptId) return { answer: 'lost' }
            const expiresAt = Math.max(hold.expiresAt, now + ttlMs)
            return { answer: 'renewed', write: { fence, hold: { ...hold, expiresAt } } }
          }),
        ),
      ),

    release: ({ name, attemptId }) =>
      update(name, (current) => {
        if (current.hold?.attemptId === attemptId)
          return { answer: 'released', write: { fence: current.fence } }
        // Written all the same: a new version defeats a write of this attempt that arrives late.
        return { answer: 'not-held', write: current }
      }),

    inspect: (name) =>
      update(name, ({ fence, hold }, now) => {
        if (hold === undefined) return { answer: { name, held: false } }
        const remainingMs = hold.expiresAt - now
        return { answer: { name, held: true, holder: holderOf(fence, hold), remainingMs } }
      }),
  })
}

/** Without the attempt id, which is a secret. @param {number} fence @param {Hold} hold */
function holderOf(fence, { owner, metadata, since }) {
  return { owner, metadata, since, fence: BigInt(fence) }
}
