import { capabilities } from '@locks/core/adapter'
import { openStore } from './store.mjs'

/** @typedef {{ attemptId: string, expiresAt: number, holder: import('@locks/core/adapter').Holder }} Hold */
/** @typedef {{ fence: number, hold?: Hold | undefined }} LockRecord Stored for a name; the fence outlives the hold. */

/** Locks on the versioned store at `url`. @param {string} url @returns {import('@locks/core/adapter').AdapterFactory} */
export function httpLocks(url) {
  const store = openStore(url)

  /**
   * Writes the record that `decide` returns with its answer; decides again if another client wrote in between. Times are
   * the store's: a hold whose time is over does not count.
   * @template {readonly [answer: unknown, next?: LockRecord]} const D
   * @param {string} name @param {(fence: number, hold: Hold | undefined, now: number) => D} decide
   * @returns {Promise<D[0]>}
   */
  async function update(name, decide) {
    for (;;) {
      const { value, version, now } = await store.get(name)
      /** @type {LockRecord} */
      const { fence, hold } = value === undefined ? { fence: 0 } : JSON.parse(value)
      const [answer, next] = decide(fence, hold && now < hold.expiresAt ? hold : undefined, now)
      if (next === undefined || (await store.put(name, JSON.stringify(next), version))) return answer
    }
  }

  return () => ({
    capabilities: capabilities({ fencing: 'clock-assisted' }),
    attempt: ({ name, attemptId, owner, metadata, ttlMs }) =>
      update(name, (last, hold, now) => {
        if (hold && hold.attemptId !== attemptId)
          return [
            { busy: true, holder: { ...hold.holder, fence: BigInt(last) }, retryInMs: hold.expiresAt - now },
          ]
        // Ours already if an earlier reply was lost: the same fence, and a fresh ttl. Otherwise a new fence, above
        // the store's clock: it rises even if the store has lost its data.
        const fence = hold ? last : Math.max(last + 1, now)
        const { holder, expiresAt } = hold ?? { holder: { owner, metadata, since: now }, expiresAt: 0 }
        const next = { attemptId, holder, expiresAt: Math.max(expiresAt, now + ttlMs) }
        return [
          { name, attemptId, fence: BigInt(fence), ttlMs },
          { fence, hold: next },
        ]
      }),
    renew: (renewals) =>
      Promise.all(
        renewals.map(({ grant: { name, attemptId }, ttlMs }) =>
          update(name, (fence, hold, now) => {
            if (hold?.attemptId !== attemptId) return ['lost']
            return ['renewed', { fence, hold: { ...hold, expiresAt: Math.max(hold.expiresAt, now + ttlMs) } }]
          }),
        ),
      ),
    // Writes in any case: the new version defeats a write of this attempt that arrives late.
    release: ({ name, attemptId }) =>
      update(name, (fence, hold) =>
        hold?.attemptId === attemptId ? ['released', { fence }] : ['not-held', { fence, hold }],
      ),
    inspect: (name) =>
      update(name, (fence, hold, now) => {
        if (!hold) return [{ name, held: false }]
        const holder = { ...hold.holder, fence: BigInt(fence) }
        return [{ name, held: true, holder, remainingMs: hold.expiresAt - now }]
      }),
  })
}
