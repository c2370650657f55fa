import { LockError, PruneSteps } from '@locks/core/adapter'
import type {
  AcquireRequest,
  Adapter,
  AdapterHost,
  Busy,
  Capabilities,
  Grant,
  RenewOutcome,
} from '@locks/core/adapter'
import { attemptAll, validMs, whoIsAhead } from './attempt.ts'
import type { Refused } from './attempt.ts'
import { breakHold } from './break.ts'
import { diagnose } from './diagnose.ts'
import { Fences } from './fences.ts'
import { listHeld } from './list.ts'
import type { RedlockNode } from './node.ts'
import type { Nodes } from './nodes.ts'
import { count, saidOf, valuesOf } from './nodes.ts'
import { forgetOnAll } from './prune.ts'
import { holdOf, stateOf } from './state.ts'
import { Waits } from './waits.ts'

export interface RedlockCapabilities extends Capabilities {
  readonly scope: 'cluster'
  readonly kind: 'lease'
  readonly fencing: 'clock-assisted' | 'none'
  readonly wait: 'notify'
  readonly fairness: 'none'
  readonly handover: false
  readonly lockDelay: true
  readonly minHold: true
  readonly list: true
  readonly break: true
}

/** So often a split vote is repeated before it is called busy. */
const SPLIT_ROUNDS = 3

function capabilitiesOf(fencing: boolean): RedlockCapabilities {
  return {
    scope: 'cluster',
    kind: 'lease',
    fencing: fencing ? 'clock-assisted' : 'none',
    wait: 'notify',
    fairness: 'none',
    handover: false,
    lockDelay: true,
    minHold: true,
    list: true,
    break: true,
    modes: ['exclusive'],
    minTtlMs: 100,
    maxNameBytes: 1024,
  }
}

export function redlockAdapter(
  nodes: Nodes,
  fencing: boolean,
  { clock }: AdapterHost,
): Adapter<RedlockCapabilities> {
  const capabilities = capabilitiesOf(fencing)
  const waits = new Waits(nodes, clock)
  const fences = new Fences(clock)
  const pruning = new PruneSteps(clock, (idleMs, names) => forgetOnAll(nodes, idleMs, names))
  const underWay = new Map<string, Promise<Grant | Busy>>()
  /** Attempts under way that nobody wants any more. */
  const withdrawn = new Set<string>()
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
      if (outcome !== 'lost') throw new LockError('LOCK_UNAVAILABLE', 'the hold could not be confirmed')
    }
    const pause = (ms: number): Promise<void> => new Promise((resolve) => clock.timer(ms, resolve))
    for (let round = 0; ; round += 1) {
      const last = (): boolean => round === SPLIT_ROUNDS || withdrawn.has(attemptId)
      const woken = waits.trying(attemptId)
      // Others were woken too, or have just split the votes.
      const ahead = woken || round > 0 ? await whoIsAhead(nodes, request, fencing) : undefined
      if (ahead === undefined) {
        const outcome = await vote(request)
        if ('fence' in outcome) return outcome
        // Where nobody has it, "held" would be wrong: those who split the votes try again, not all at once.
        if (outcome.settled || last()) return waits.busy(request, outcome)
      } else if (request.willWait || last()) return waits.behind(request, ahead)
      await pause(clock.random() * 10 * 2 ** round)
    }
  }

  async function vote(request: AcquireRequest): Promise<Grant | Refused> {
    const { name, attemptId, ttlMs, lockDelayMs } = request
    const sentAt = clock.now()
    // Too late to be worth anything: then it is no grant.
    const inTime = (): boolean => clock.now() < sentAt + validMs(ttlMs)
    const outcome = await attemptAll(nodes, request, { fencing, inTime })
    if ('busy' in outcome) return outcome
    const { fence } = outcome
    waits.over(attemptId)
    fences.set(attemptId, fence, sentAt + ttlMs + lockDelayMs)
    return { name, attemptId, fence, ttlMs }
  }

  async function renew(renewals: Parameters<Adapter['renew']>[0]): Promise<readonly RenewOutcome[]> {
    const verdict = (outcomes: readonly (readonly RenewOutcome[])[], index: number): RenewOutcome => {
      const of = (wanted: RenewOutcome): number => outcomes.filter((one) => one[index] === wanted).length
      return of('renewed') >= quorum ? 'renewed' : of('lost') > minority ? 'lost' : 'unknown'
    }
    const sentAt = clock.now()
    const answers = await nodes.ask((node) => node.renew(renewals), {
      enough: (soFar) => renewals.every((_, index) => verdict(valuesOf(soFar), index) !== 'unknown'),
    })
    const outcomes = valuesOf(answers)
    if (outcomes.length === 0) throw nodes.outage('no renewal', answers)
    const verdicts = renewals.map((_, index) => verdict(outcomes, index))
    renewals.forEach(({ grant, ttlMs, lockDelayMs }, index) => {
      if (verdicts[index] === 'lost') giveUp(grant, (node) => saidOf(answers[node])?.[index] === 'lost')
      else fences.keep(grant.attemptId, sentAt + ttlMs + lockDelayMs)
    })
    return verdicts
  }

  /** A minority that was just renewed would keep others from a majority for another ttl. */
  function giveUp({ name, attemptId }: Grant, hasLost: (node: number) => boolean): void {
    fences.delete(attemptId)
    all.forEach((node, index) => {
      if (!hasLost(index)) nodes.track(node.free(name, attemptId))
    })
  }

  /**
   * Everywhere; a node that does not answer gets it when it reads on, in order behind what it was asked before. A
   * majority that ended the hold has released it. Where so many did not hold it that no majority can have, it is lost.
   * A majority that keeps the name taken for `keepMs` more is one that every other has a node in common with.
   */
  async function release(name: string, attemptId: string, keepMs: number): Promise<'released' | 'not-held'> {
    fences.delete(attemptId)
    const end = (node: RedlockNode): Promise<'released' | 'not-held'> =>
      keepMs > 0 ? node.keep(name, attemptId, keepMs) : node.free(name, attemptId)
    const answers = await nodes.ask(end, {
      enough: (soFar) =>
        count(soFar, (one) => one === 'released') >= quorum ||
        count(soFar, (one) => one === 'not-held') > minority,
    })
    if (count(answers, (one) => one === 'released') >= quorum) return 'released'
    if (count(answers, (one) => one === 'not-held') > minority) return 'not-held'
    throw nodes.outage('no release', answers)
  }

  /** As `release`, of an attempt that may hold any number of nodes. */
  async function withdraw(name: string, attemptId: string): Promise<void> {
    fences.delete(attemptId)
    const answers = await nodes.ask((node) => node.free(name, attemptId), {
      enough: (soFar) => valuesOf(soFar).length >= quorum,
    })
    if (valuesOf(answers).length < quorum) throw nodes.outage('not withdrawn', answers)
  }

  return {
    name: '@locks/redlock',
    capabilities,

    attempt(request) {
      const { attemptId } = request
      const before = underWay.get(attemptId)
      if (before !== undefined) return before
      const now = attempt(request).finally(() => underWay.delete(attemptId))
      underWay.set(attemptId, now)
      return now
    },

    async wait(request, maxMs, signal) {
      await waits.wait(request, maxMs, signal)
      return undefined
    },

    async withdraw({ name, attemptId }) {
      // Whatever a vote under way comes to, it must not come to it afterwards.
      if (underWay.has(attemptId)) withdrawn.add(attemptId)
      await underWay.get(attemptId)?.catch(() => undefined)
      withdrawn.delete(attemptId)
      waits.over(attemptId)
      await withdraw(name, attemptId)
    },

    renew,

    release: ({ name, attemptId }, keepMs = 0) => release(name, attemptId, keepMs),

    list: (limit) => listHeld(nodes, limit, fencing),

    break: (name, holder) => breakHold(nodes, name, holder, fencing),

    diagnose: () => diagnose(nodes),

    prune: (idleMs, names) => pruning.step(idleMs, names),

    inspect: async (name) => stateOf(name, await holdOf(nodes, name, fencing), quorum),

    async close() {
      waits.close()
      await nodes.drained()
      for (const node of all) node.close()
    },
  }
}
