import { capabilities, pause, PruneSteps, safeTtlMs } from '@locks/core/adapter'
import type {
  AcquireRequest,
  Adapter,
  AdapterHost,
  Busy,
  CapabilitiesOf,
  Grant,
  RenewOutcome,
} from '@locks/core/adapter'
import type { RedisNode } from '@locks/redis/node'
import { attemptAll, whoIsAhead } from './attempt.ts'
import type { Refused } from './attempt.ts'
import { diagnose } from './diagnose.ts'
import { errors } from './errors.ts'
import { Fences } from './fences.ts'
import type { Nodes } from './nodes.ts'
import { answerOf, count, valuesOf } from './nodes.ts'
import { breakHold, inspect, listHeld, pruneAll } from './operators.ts'
import { Votes } from './votes.ts'
import { Waiters } from './waiters.ts'

const given = { wait: 'notify', lockDelay: true, minHold: true, list: true, break: true } as const

export type RedlockCapabilities = CapabilitiesOf<
  typeof given & { readonly fencing: 'clock-assisted' | 'none' }
>

/** How often a split vote is repeated before it counts as busy. */
const SPLIT_ROUNDS = 3

export function redlockAdapter(
  nodes: Nodes,
  fencing: boolean,
  { clock }: AdapterHost,
): Adapter<RedlockCapabilities> {
  const waiters = new Waiters(nodes, clock)
  const fences = new Fences(clock)
  const votes = new Votes()
  const pruning = new PruneSteps(clock, (idleMs, names) => pruneAll(nodes, idleMs, names))
  const { quorum, all } = nodes
  const minority = all.length - quorum

  async function attempt(request: AcquireRequest): Promise<Grant | Busy> {
    const { name, attemptId, ttlMs, lockDelayMs } = request
    await nodes.compared()
    const fence = fences.get(attemptId)
    if (fence !== undefined) {
      const grant = { name, attemptId, fence, ttlMs }
      const [outcome] = await renew([{ grant, ttlMs, lockDelayMs }])
      if (outcome === 'renewed') return grant
      if (outcome !== 'lost')
        throw errors.unavailable(
          'too few nodes answered to confirm the hold, so it is unknown whether the lock is held; check the nodes',
        )
      // It was never answered, or it would not be repeated: nobody acts under it, and its lock-delay may end.
      votes.withdraw(attemptId, all)
    }
    for (let round = 0; ; round += 1) {
      const last = round === SPLIT_ROUNDS
      const woken = waiters.trying(attemptId)
      // Other clients were woken too, or have just split the votes.
      const ahead = woken || round > 0 ? await whoIsAhead(nodes, request, { votes, fencing }) : undefined
      if (ahead === undefined) {
        const outcome = await vote(request)
        if ('fence' in outcome) return outcome
        // No attempt has a majority: those that split the votes try again at different times.
        if (outcome.settled || last) return waiters.busy(request, outcome)
      } else if (request.willWait || last) return waiters.behind(request, ahead)
      await pause(clock, clock.random() * 10 * 2 ** round)
    }
  }

  async function vote(request: AcquireRequest): Promise<Grant | Refused> {
    const { name, attemptId, ttlMs, lockDelayMs } = request
    const sentAt = clock.now()
    // A grant that comes later is over already.
    const inTime = (): boolean => clock.now() < sentAt + safeTtlMs(ttlMs)
    const outcome = await attemptAll(nodes, request, { votes, fencing, inTime })
    if ('busy' in outcome) return outcome
    const { fence } = outcome
    waiters.over(attemptId)
    fences.set(attemptId, fence, sentAt + ttlMs + lockDelayMs)
    return { name, attemptId, fence, ttlMs }
  }

  async function renew(renewals: Parameters<Adapter['renew']>[0]): Promise<readonly RenewOutcome[]> {
    const verdict = (outcomes: readonly (readonly RenewOutcome[])[], index: number): RenewOutcome => {
      const of = (wanted: RenewOutcome): number => outcomes.filter((one) => one[index] === wanted).length
      return of('renewed') >= quorum ? 'renewed' : of('lost') > minority ? 'lost' : 'unknown'
    }
    const sentAt = clock.now()
    const asked = votes.inVotes(renewals)
    const answers = await nodes.ask((node) => node.renew(asked), {
      enough: (soFar) => renewals.every((_, index) => verdict(valuesOf(soFar), index) !== 'unknown'),
    })
    const outcomes = valuesOf(answers)
    if (outcomes.length === 0) throw nodes.outage('the renewal is not confirmed', answers)
    const verdicts = renewals.map((_, index) => verdict(outcomes, index))
    renewals.forEach(({ grant, ttlMs, lockDelayMs }, index) => {
      if (verdicts[index] === 'lost')
        releaseRest(grant, (node) => answerOf(answers[node])?.[index] === 'lost')
      else fences.keep(grant.attemptId, sentAt + ttlMs + lockDelayMs)
    })
    return verdicts
  }

  /** Otherwise a minority that was just renewed would block a majority for another ttl. */
  function releaseRest({ name, attemptId }: Grant, hasLost: (node: number) => boolean): void {
    fences.delete(attemptId)
    const id = votes.idOf(attemptId)
    all.forEach((node, index) => {
      if (!hasLost(index)) nodes.track(node.release(name, id))
    })
  }

  /**
   * Sent to every node. A majority that ended the hold released it. If more than a minority did not hold it, the lease
   * is lost. Any other majority shares a node with one that keeps the name taken for `keepMs` more.
   */
  async function release(name: string, attemptId: string, keepMs: number): Promise<'released' | 'not-held'> {
    fences.delete(attemptId)
    votes.close(attemptId)
    const id = votes.idOf(attemptId)
    const call = (node: RedisNode): Promise<'released' | 'not-held'> => {
      const answer = node.release(name, id, keepMs)
      if (id !== attemptId) nodes.track(votes.settle(node, name, attemptId))
      return answer
    }
    const answers = await nodes.ask(call, {
      enough: (soFar) =>
        count(soFar, (one) => one === 'released') >= quorum ||
        count(soFar, (one) => one === 'not-held') > minority,
    })
    const released = count(answers, (one) => one === 'released') >= quorum
    if (released || count(answers, (one) => one === 'not-held') > minority) {
      votes.delete(attemptId)
      return released ? 'released' : 'not-held'
    }
    throw nodes.outage('the release is not confirmed', answers)
  }

  /** As `release`, for an attempt that may hold any number of nodes. */
  async function withdraw(name: string, attemptId: string): Promise<void> {
    fences.delete(attemptId)
    votes.withdraw(attemptId, all)
    const answers = await nodes.ask((node) => votes.settle(node, name, attemptId), {
      enough: (soFar) => valuesOf(soFar).length >= quorum,
    })
    if (valuesOf(answers).length < quorum) throw nodes.outage('the withdrawal is not confirmed', answers)
    votes.delete(attemptId)
  }

  return {
    name: '@locks/redlock',
    capabilities: capabilities({ ...given, fencing: fencing ? 'clock-assisted' : 'none' }),

    async attempt(request) {
      const answer = await attempt(request)
      // Core asks no more for it, and does not withdraw it.
      if ('busy' in answer && !request.willWait) votes.delete(request.attemptId)
      return answer
    },

    async wait(request, maxMs, signal) {
      await waiters.wait(request, maxMs, signal)
      return undefined
    },

    withdraw({ name, attemptId }) {
      waiters.over(attemptId)
      return withdraw(name, attemptId)
    },

    renew,

    release: ({ name, attemptId }, keepMs = 0) => release(name, attemptId, keepMs),

    list: (limit) => listHeld(nodes, limit, fencing),

    break: (name, holder) => breakHold(nodes, name, holder, fencing),

    diagnose: () => diagnose(nodes),

    prune: (idleMs, names) => pruning.step(idleMs, names),

    inspect: (name) => inspect(nodes, name, fencing),

    async close() {
      waiters.close()
      await nodes.drained()
      for (const node of all) node.close()
    },
  }
}
