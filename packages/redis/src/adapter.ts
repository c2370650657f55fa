import { capabilities, isLockError, PruneSteps } from '@locks/core/adapter'
import type {
  AcquireRequest,
  Adapter,
  AdapterHost,
  Busy,
  CapabilitiesOf,
  Grant,
  LockState,
  PushedGrant,
} from '@locks/core/adapter'
import { Connection } from './connection.ts'
import { diagnose } from './diagnose.ts'
import type { RedisSettings } from './options.ts'
import type { Refusal } from './record.ts'
import { Store } from './store.ts'
import { pruneTokens, sharedAmong } from './tokens.ts'
import { Waiters } from './waiters.ts'

const given = {
  fencing: 'clock-assisted',
  wait: 'handoff',
  fairness: 'fifo',
  handover: true,
  lockDelay: true,
  minHold: true,
  list: true,
  break: true,
  minTtlMs: 50,
} as const

export type RedisCapabilities = CapabilitiesOf<typeof given>

/** A waiter asks at least this often, even if the holder's ttl is longer: the queue drops those that never ask. */
const MAX_POLL_MS = 30_000

/** While grants would not arrive. */
const UNSUBSCRIBED_POLL_MS = 500

/** The first in the queue looks when the lease should be over, those behind it a little later each. */
const POLL_STEP_MS = 50
const POLL_STEPS = 40

export function redisAdapter(settings: RedisSettings, host: AdapterHost): Adapter<RedisCapabilities> {
  const connection = new Connection(settings)
  // While a replica is down, renewals would wait behind WAIT.
  const replicated = settings.waitForReplicas > 0 ? new Connection(settings, { own: true }) : connection
  const store = new Store(connection, settings, replicated)
  const waiters = new Waiters(connection, store, host)
  const { waitForReplicas } = settings
  const pruning = new PruneSteps(host.clock, (idleMs, names) => pruneTokens(connection, idleMs, names))

  function attempt(request: AcquireRequest): Promise<Grant | Busy> {
    const enqueue = request.willWait && waiters.expect(request)
    const sentAt = host.clock.now()
    const read = (answer: bigint | Refusal): Grant | Busy =>
      typeof answer === 'bigint' ? granted(request, answer) : refused(request, enqueue, sentAt, answer)
    return store.attempt(request, enqueue, read)
  }

  function granted(request: AcquireRequest, fence: bigint): Grant {
    // An earlier attempt may have enqueued it.
    waiters.granted(request)
    const { name, attemptId, ttlMs } = request
    return { name, attemptId, fence, ttlMs }
  }

  function refused(request: AcquireRequest, enqueued: boolean, sentAt: number, refusal: Refusal): Busy {
    const { holder, remainingMs, position } = refusal
    waiters.exchanged(request, sentAt, refusal)
    if (enqueued && position < 0) waiters.unsubscribed(request)
    const soon = remainingMs + 1 + Math.min(Math.max(position, 0), POLL_STEPS) * POLL_STEP_MS
    const retryInMs = Math.min(soon, position < 0 ? UNSUBSCRIBED_POLL_MS : MAX_POLL_MS)
    return holder === undefined ? { busy: true, retryInMs } : { busy: true, holder, retryInMs }
  }

  /** The push may come from another primary than the one that Sentinels have chosen. A reply is checked for that. */
  async function confirmed(request: AcquireRequest): Promise<PushedGrant | undefined> {
    const grantedAt = host.clock.now()
    const answer = await attempt(request)
    return 'fence' in answer ? { ...answer, grantedAt } : undefined
  }

  async function inspect(name: string): Promise<LockState> {
    const { attempt: _, holder, remainingMs, ...queue } = await store.look(name)
    return holder === undefined
      ? { name, held: false, ...queue }
      : { name, held: true, holder, remainingMs, ...queue }
  }

  /** A key that is not a lock any more does not end the list. */
  async function listed(name: string): Promise<LockState> {
    try {
      return await inspect(name)
    } catch (error) {
      // With a cause it is the server that refuses.
      if (!isLockError(error, 'LOCK_INVALID_ARGUMENT') || error.cause !== undefined) throw error
      return { name, held: false }
    }
  }

  return {
    name: '@locks/redis',
    capabilities: capabilities(given),

    attempt,

    async wait(request, maxMs, signal) {
      const pushed = await waiters.wait(request, maxMs, signal)
      // Only another attempt can show that the replicas have it too.
      if (pushed === undefined || waitForReplicas > 0) return undefined
      return connection.replaceable ? confirmed(request) : pushed
    },

    withdraw(request) {
      waiters.withdrawn(request)
      return store.withdraw(request)
    },

    renew: (renewals) => store.renew(renewals),

    release({ name, attemptId }, keepMs = 0) {
      waiters.released(attemptId)
      return store.release(name, attemptId, keepMs)
    },

    adopt: (from, request) => store.adopt(from, request),

    inspect,

    async list(limit) {
      const held: LockState[] = []
      await store.names(async (names) => {
        const states = await Promise.all(names.map(listed))
        held.push(...states.filter((state) => state.held))
        return held.length < limit
      })
      return held.slice(0, limit)
    },

    break: (name, holder) => store.break(name, holder),

    diagnose: () => diagnose(connection, waitForReplicas),

    async prune(idleMs, names) {
      const kept = names && (await sharedAmong(connection, names))
      return { ...(await pruning.step(idleMs, names)), ...(kept && { kept }) }
    },

    async close() {
      waiters.close()
      connection.close()
      replicated.close()
    },
  }
}
