import type { Guard } from '@locks/core'
import type { Adapter, Busy, Grant } from '@locks/core/adapter'
import type { Problem } from './journal.ts'
import type { Sabotage } from './stage.ts'

/** A mistake that a run must show, and as what. */
export interface BrokenVariant {
  readonly title: string
  readonly caughtBy: Problem['check']
  readonly sabotage: Sabotage
}

/** Changes some methods of an adapter; the others stay. */
const change =
  (by: (adapter: Adapter) => Partial<Adapter>) =>
  (adapter: Adapter): Adapter => ({ ...adapter, ...by(adapter) })

const isGrant = (answer: Grant | Busy): answer is Grant => 'fence' in answer

/** No attempt sees another: each has its own name. */
const noExclusion = change((store) => {
  const own = <T extends { name: string; attemptId: string }>(one: T): T => ({
    ...one,
    name: `${one.name} of ${one.attemptId}`,
  })
  return {
    async attempt(request) {
      const answer = await store.attempt(own(request))
      return isGrant(answer) ? { ...answer, name: request.name } : answer
    },
    renew: (renewals) => store.renew(renewals.map((one) => ({ ...one, grant: own(one.grant) }))),
    release: (grant) => store.release(own(grant)),
    withdraw: async (request) => store.withdraw?.(own(request)),
  }
})

/** A release frees the name of any holder. For that, the holder's attempt is visible as its owner. */
const releaseByAnyone = change((store) => ({
  attempt: (request) => store.attempt({ ...request, owner: request.attemptId }),
  async release(grant) {
    const { holder } = await store.inspect(grant.name)
    return store.release({ ...grant, attemptId: holder?.owner ?? grant.attemptId })
  },
}))

const renewalOnlyConfirmed = change(() => ({
  renew: (renewals) => Promise.resolve(renewals.map(() => 'renewed' as const)),
}))

const noExpiry = change((store) => ({
  async attempt(request) {
    const answer = await store.attempt({ ...request, ttlMs: 1e9 })
    return isGrant(answer) ? { ...answer, ttlMs: request.ttlMs } : answer
  },
}))

/** The answer to a repeated attempt promises a ttl that the store did not start again. */
const repeatedWithoutFreshTtl = change((store) => {
  const granted = new Map<string, Grant>()
  return {
    async attempt(request) {
      const before = granted.get(request.attemptId)
      if (before !== undefined) return before
      const answer = await store.attempt(request)
      if (isGrant(answer)) granted.set(request.attemptId, answer)
      return answer
    },
  }
})

const nothingWithdrawn = change(() => ({ withdraw: () => Promise.resolve() }))

const constantFence = change((adapter) => ({
  async attempt(request) {
    const answer = await adapter.attempt(request)
    return isGrant(answer) ? { ...answer, fence: 1n } : answer
  },
}))

const uncheckedGuard = (): Guard => ({
  register: () => Promise.resolve(),
  run: async (_fence, fn) => fn(),
})

export const brokenVariants: readonly BrokenVariant[] = [
  { title: 'no exclusion check', caughtBy: 'exclusion', sabotage: { store: noExclusion } },
  { title: 'release without owner check', caughtBy: 'exclusion', sabotage: { store: releaseByAnyone } },
  {
    title: 'a renewal that is confirmed but not made',
    caughtBy: 'exclusion',
    sabotage: { store: renewalOnlyConfirmed },
  },
  {
    title: 'a repeated attempt without a fresh ttl',
    caughtBy: 'exclusion',
    sabotage: { store: repeatedWithoutFreshTtl },
  },
  {
    title: 'pushed grants dated by their receipt',
    caughtBy: 'exclusion',
    sabotage: { datesByReceipt: true },
  },
  { title: 'a constant fence', caughtBy: 'fence-order', sabotage: { store: constantFence } },
  {
    title: 'a resource that does not check fences',
    caughtBy: 'exposure',
    sabotage: { guard: uncheckedGuard },
  },
  { title: 'writes without a validity check', caughtBy: 'validity', sabotage: { uncheckedWrites: true } },
  { title: 'no ttl', caughtBy: 'crash-release', sabotage: { store: noExpiry } },
  { title: 'withdrawals that do nothing', caughtBy: 'leftovers', sabotage: { store: nothingWithdrawn } },
]
