import type {
  AcquireRequest,
  Adapter,
  AdapterHost,
  Busy,
  Capabilities,
  Grant,
  Pruned,
  RenewOutcome,
  VersionedStore,
} from '@locks/core/adapter'
import { capabilities, isAttemptId, PruneSteps, Upkeep } from '@locks/core/adapter'
import { changeOf } from './change.ts'
import type { Change, Decision, Trace, Write } from './change.ts'
import { Looks } from './looks.ts'
import { blockedMs, fenceOf, Observations } from './observations.ts'
import type { Observation } from './observations.ts'
import { encodeFree, encodeHeld, holderOf, keptHold, newHold } from './record.ts'
import type { Held } from './record.ts'
import { Waiters } from './waiters.ts'

export type CasCapabilities = Capabilities & {
  readonly handover: true
  readonly lockDelay: true
  readonly break: true
}

function capabilitiesOf(store: VersionedStore): CasCapabilities {
  const { scope, fencing } = store
  return capabilities({
    scope,
    fencing,
    wait: store.watch === undefined ? 'poll' : 'notify',
    handover: true,
    lockDelay: true,
    minHold: store.now !== undefined,
    list: store.values !== undefined,
    break: true,
    minTtlMs: scope === 'process' ? 10 : 50,
  })
}

type Lengths = Pick<AcquireRequest, 'ttlMs' | 'lockDelayMs'>

/**
 * A lock by compare-and-set, without a clock that machines would have to agree on. The record of a name has its holder
 * and the length of the lease. The holder rewrites it in time, so that its version changes. A contender takes over only
 * after it has seen the record stand still for its whole length, and only if it is still that version. The version of
 * a record is the fence; a record that is dropped while idle comes back with a higher version.
 */
export function casAdapter(
  store: VersionedStore,
  { clock, clientId }: AdapterHost,
  seen: Observations,
  fenceIdleMs: number,
): Adapter<CasCapabilities> {
  const [values, diagnose] = [store.values?.bind(store), store.diagnose?.bind(store)]
  const looks = new Looks(store, seen)
  const waiters = new Waiters(store, clock, seen)
  const change: Change = changeOf(store, seen)
  /** Attempts whose last put was not answered, and the version it was for. */
  const unanswered = new Map<string, bigint | undefined>()
  let writes = 0
  const { prune, upkeep, inBackground } = pruning()

  function grant<T>(
    { name, attemptId, ttlMs }: Pick<AcquireRequest, 'name' | 'attemptId' | 'ttlMs'>,
    held: Held,
    answer: (grant: Grant) => T,
  ): Decision<T> {
    return {
      write: encodeHeld(name, held),
      // Only a put that mints a fence must survive a crash.
      durable: held.fence === undefined,
      done: (version) => answer({ name, attemptId, fence: held.fence ?? version, ttlMs }),
    }
  }

  /**
   * The requested lengths, but never less than what remains of the last promise, so no hold ends earlier than promised.
   * A record was written before it was seen, so it promises nothing beyond its length from then.
   */
  function lengthsOf(at: Observation, held: Held, asked: Lengths): Lengths {
    const ttlMs = Math.max(asked.ttlMs, Math.ceil(seen.remainingMs(at, held.ttlMs)))
    const blocked = Math.max(ttlMs + asked.lockDelayMs, Math.ceil(seen.remainingMs(at, blockedMs(held))))
    return { ttlMs, lockDelayMs: blocked - ttlMs }
  }

  function free<T>(name: string, answer: () => T): Write<T> {
    const write = encodeFree(name, clientId, ++writes)
    return { write, durable: false, done: answer, ...(fenceIdleMs > 0 && { idleMs: fenceIdleMs }) }
  }

  function pruning(): {
    readonly prune?: PruneSteps
    readonly upkeep?: Upkeep
    readonly inBackground?: PruneSteps
  } {
    const drop = store.prune?.bind(store)
    if (drop === undefined) return {}
    // The names in use would push out what is watched from one pass to the next.
    const watching = new Looks(store, new Observations(clock))
    const behind = new PruneSteps(clock, (idleMs) => drop(idleMs, watching.isOver, true))
    return {
      prune: new PruneSteps(clock, (idleMs, names) => drop(idleMs, looks.isOver, false, names)),
      upkeep: new Upkeep(clock, fenceIdleMs, () => behind.step(fenceIdleMs)),
      inBackground: behind,
    }
  }

  /** The `prune` of a store that cannot drop anything. */
  function keptAmong(why: string): (idleMs: number, names?: readonly string[]) => Promise<Pruned> {
    return async (_, names = []) => {
      let kept = 0
      for (const name of names) if ((await store.get(name)) !== undefined) kept += 1
      return { pruned: 0, more: false, kept: { names: kept, why } }
    }
  }

  function isHolder(at: Observation, held: Held, attemptId: string): boolean {
    return isOf(held, attemptId) && !seen.stoodStill(at, held.ttlMs)
  }

  function decide(request: AcquireRequest, at: Observation): Decision<Grant | Busy> {
    const { held } = at
    if (held !== undefined && isHolder(at, held, request.attemptId)) {
      const prolonged = {
        ...held,
        ...lengthsOf(at, held, request),
        fence: fenceOf(at, held),
        write: ++writes,
      }
      // The put that minted its fence was not answered, and may not be durable.
      return { ...grant(request, prolonged, (given) => given), durable: true }
    }
    // Its own hold that is over was never answered, or it would not ask again: no client acts under it.
    const isOwn = held !== undefined && isOf(held, request.attemptId)
    if (held !== undefined && !isOwn && seen.blocking(at) !== undefined) {
      const holder = holderOf(held, fenceOf(at, held))
      const remainingMs = seen.remainingMs(at, blockedMs(held))
      return { answer: { busy: true, holder, retryInMs: waiters.retryInMs(held, remainingMs) } }
    }
    const taken = grant(request, newHold(request, ++writes), (given) => given)
    return held === undefined ? taken : { ...taken, careful: true }
  }

  async function renew(
    { name, attemptId }: Grant,
    ttlMs: number,
    lockDelayMs: number,
  ): Promise<RenewOutcome> {
    return change(name, (at): Decision<RenewOutcome> => {
      const { held } = at
      if (held === undefined || !isHolder(at, held, attemptId)) return { answer: 'lost' }
      const lengths = lengthsOf(at, held, { ttlMs, lockDelayMs })
      const renewed = { ...held, ...lengths, fence: fenceOf(at, held), write: ++writes }
      return grant({ name, attemptId, ttlMs }, renewed, () => 'renewed')
    })
  }

  return {
    name: '@locks/cas',
    capabilities: capabilitiesOf(store),

    async attempt(request) {
      const { name, attemptId } = request
      waiters.looking(attemptId)
      const step = (at: Observation): Decision<Grant | Busy> => decide(request, at)
      const trace: Trace = {
        sending: (version) => void unanswered.set(attemptId, version),
        answered: () => void unanswered.delete(attemptId),
      }
      const isNew = seen.of(name) === undefined
      let answer = await change(name, step, trace)
      if ('busy' in answer && ((isNew && (await looks.recall(name))) || (await looks.recallKept(name))))
        answer = await change(name, step, trace)
      if ('fence' in answer) waiters.end(attemptId)
      else if (request.willWait) waiters.begin(request)
      return answer
    },

    ...(store.watch !== undefined && {
      wait: async ({ attemptId }: AcquireRequest, maxMs: number, signal: AbortSignal) => {
        await waiters.wait(attemptId, maxMs, signal)
        return undefined
      },
    }),

    async withdraw({ name, attemptId }) {
      // The last answer was "busy", and nothing was sent since: there is nothing to withdraw.
      if (waiters.end(attemptId) && !unanswered.has(attemptId)) return
      const freed = free(name, () => undefined)
      await change(name, (at): Decision<void> => {
        if (at.held !== undefined && isOf(at.held, attemptId)) return freed
        // A put that may still arrive fails once the version it is for has changed.
        const mayArrive = unanswered.has(attemptId) && unanswered.get(attemptId) === at.version
        return mayArrive ? freed : { answer: undefined }
      })
      unanswered.delete(attemptId)
    },

    async renew(renewals) {
      const calls = renewals.map(({ grant: held, ttlMs, lockDelayMs }) => renew(held, ttlMs, lockDelayMs))
      const outcomes = await Promise.allSettled(calls)
      const failed = outcomes.find((outcome) => outcome.status === 'rejected')
      if (failed !== undefined && outcomes.every(({ status }) => status === 'rejected')) throw failed.reason
      return outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : 'unknown'))
    },

    async release({ name, attemptId }, keepMs = 0) {
      const keptUntil = keepMs > 0 ? (await looks.now(name)) + keepMs : 0
      const outcome = await change(name, (at): Decision<'released' | 'not-held'> => {
        const { held } = at
        if (held === undefined || !isOf(held, attemptId)) return { answer: 'not-held' }
        if (keepMs === 0) return free(name, () => 'released')
        const ended = { ...held, fence: fenceOf(at, held), write: ++writes }
        const kept = keptHold(ended, keepMs, keptUntil)
        const idle = fenceIdleMs > 0 && { idleMs: keepMs + fenceIdleMs }
        return { write: encodeHeld(name, kept), durable: true, done: () => 'released', ...idle }
      })
      upkeep?.released()
      return outcome
    },

    async adopt(from, request) {
      return change(request.name, (at): Decision<Grant | 'lost'> => {
        const { held } = at
        if (held === undefined) return { answer: 'lost' }
        if (!isHolder(at, held, from.attemptId) && !isHolder(at, held, request.attemptId))
          return { answer: 'lost' }
        const { since } = held
        const fence = fenceOf(at, held)
        if (fence !== from.fence) return { answer: 'lost' }
        const adopted = { ...newHold(request, ++writes), ...lengthsOf(at, held, request), since, fence }
        return grant(request, adopted, (given) => given)
      })
    },

    inspect: async (name) => looks.inspect(name, await store.get(name)),

    ...(values !== undefined && { list: (limit: number) => looks.list(values(), limit) }),

    async break(name, { fence }) {
      return change(name, (at): Decision<'broken' | 'not-held'> => {
        const { held } = at
        if (held === undefined || fenceOf(at, held) !== fence) return { answer: 'not-held' }
        return { ...free(name, () => 'broken'), careful: true }
      })
    },

    ...(diagnose !== undefined && { diagnose }),
    ...(prune !== undefined && {
      prune: (idleMs: number, names?: readonly string[]) => prune.step(idleMs, names),
    }),
    ...(store.keeps !== undefined && { prune: keptAmong(store.keeps) }),

    async close() {
      waiters.close()
      await upkeep?.close()
      await inBackground?.close()
      await store.close()
    },
  }
}

function isOf(held: Held, attemptId: string): boolean {
  return isAttemptId(attemptId) && held.attemptId === attemptId
}
