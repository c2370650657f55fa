import { isLockError, LockError, PruneSteps } from '@locks/core/adapter'
import type { AcquireRequest, Adapter, AdapterHost, Busy, Grant, LockState } from '@locks/core/adapter'
import { Connection } from './connection.ts'
import { diagnose } from './diagnose.ts'
import type { RedisSettings } from './options.ts'
import { checkServer } from './server-check.ts'
import type { Refusal } from './store.ts'
import { Store } from './store.ts'
import { forgetTokens, sharedAmong } from './tokens.ts'
import { Waiting } from './waiting.ts'

export const capabilities = {
  scope: 'cluster',
  kind: 'lease',
  fencing: 'clock-assisted',
  wait: 'handoff',
  fairness: 'fifo',
  handover: true,
  lockDelay: true,
  minHold: true,
  list: true,
  break: true,
  modes: ['exclusive'],
  minTtlMs: 50,
  maxNameBytes: 1024,
} as const

export type RedisCapabilities = typeof capabilities

/** Whoever waits asks at least this often, whatever the holder's ttl: the queue forgets who never does. */
const MAX_POLL_MS = 30_000

/** Where grants cannot be heard. */
const DEAF_POLL_MS = 500

/** The first in the queue looks when the lease should be over, those behind it a little later each. */
const POLL_STEP_MS = 50
const POLL_STEPS = 40

export function redisAdapter(settings: RedisSettings, host: AdapterHost): Adapter<RedisCapabilities> {
  const connection = new Connection(settings)
  // A replica that is down would keep renewals waiting behind WAIT.
  const replicated = settings.waitForReplicas > 0 ? new Connection(settings, { own: true }) : connection
  const store = new Store(connection, settings, replicated)
  const waiting = new Waiting(connection, store, host)
  const { waitForReplicas, waitForReplicasMs } = settings
  const pruning = new PruneSteps(host.clock, (idleMs, names) => forgetTokens(connection, idleMs, names))
  /** Answers still to come, by attempt id. One that failed stays until it is withdrawn or tried again. */
  const underWay = new Map<string, Promise<unknown>>()
  let checked = settings.serverSettings === 'ignore'
  let checking: Promise<void> | undefined

  /** Once; a failure lets the next attempt look again. */
  async function check(name: string): Promise<void> {
    // Each by its own key: whoever asks a primary that hangs must not keep those of the others waiting.
    const primaries = await connection.primaries(store.layout(name).lock)
    if (checked) return
    checking ??= checkServer(primaries, settings, connection.cluster)
    try {
      await checking
      checked = true
    } finally {
      checking = undefined
    }
  }

  async function askReplicas(request: AcquireRequest, enqueue: boolean): Promise<bigint | Refusal> {
    const outcome = await store.attemptAndWait(request, enqueue, waitForReplicas, waitForReplicasMs)
    const { answer, replicas } = outcome
    if (typeof answer === 'object' || (replicas ?? -1) >= waitForReplicas) return answer
    await store.withdraw(request)
    const reached = replicas ?? 'an unknown number'
    throw new LockError(
      'LOCK_UNAVAILABLE',
      `${reached} of ${waitForReplicas} replicas confirmed the grant within ${waitForReplicasMs} ms`,
    )
  }

  function attempt(request: AcquireRequest): Promise<Grant | Busy> {
    const enqueue = request.willWait && waiting.expect(request)
    const sentAt = host.clock.now()
    const read = (answer: bigint | Refusal): Grant | Busy =>
      typeof answer === 'bigint' ? granted(request, answer) : refused(request, enqueue, sentAt, answer)
    return waitForReplicas > 0
      ? askReplicas(request, enqueue).then(read)
      : store.attempt(request, enqueue, read)
  }

  function tracked<T>(attemptId: string, answer: Promise<T>): Promise<T> {
    underWay.set(attemptId, answer)
    return answer
  }

  function granted(request: AcquireRequest, fence: bigint): Grant {
    underWay.delete(request.attemptId)
    // Perhaps enqueued by an earlier attempt, when it could listen.
    waiting.granted(request)
    const { name, attemptId, ttlMs } = request
    return { name, attemptId, fence, ttlMs }
  }

  function refused(request: AcquireRequest, enqueued: boolean, sentAt: number, refusal: Refusal): Busy {
    const { holder, leftMs, place } = refusal
    underWay.delete(request.attemptId)
    waiting.exchanged(request, sentAt, refusal)
    if (enqueued && place < 0) waiting.unheard(request)
    const soon = leftMs + 1 + Math.min(Math.max(place, 0), POLL_STEPS) * POLL_STEP_MS
    const retryInMs = Math.min(soon, place < 0 ? DEAF_POLL_MS : MAX_POLL_MS)
    return holder === undefined ? { busy: true, retryInMs } : { busy: true, holder, retryInMs }
  }

  async function inspect(name: string): Promise<LockState> {
    const { holder, leftMs: remainingMs, waiters, waiting: queue } = await store.look(name)
    const line = { waiters, waiting: queue }
    return holder === undefined
      ? { name, held: false, ...line }
      : { name, held: true, holder, remainingMs, ...line }
  }

  /** What is found to be no lock any more does not keep the others from being listed. */
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
    capabilities,

    attempt(request) {
      return tracked(
        request.attemptId,
        checked ? attempt(request) : check(request.name).then(() => attempt(request)),
      )
    },

    async wait(request, maxMs, signal) {
      const pushed = await waiting.wait(request, maxMs, signal)
      // That the replicas have it too, or the primary that replaces this one, only another attempt can tell.
      return waitForReplicas > 0 || connection.replaced ? undefined : pushed
    },

    async withdraw(request) {
      const { attemptId } = request
      // It must not overtake the attempt, which may be held up by a first look at the server, a script to be
      // loaded, or a slot that moved: what is granted then would stay.
      await underWay.get(attemptId)?.catch(() => undefined)
      underWay.delete(attemptId)
      waiting.forget(request)
      await store.withdraw(request)
    },

    renew: (renewals) => store.renew(renewals),

    release({ name, attemptId }, keepMs = 0) {
      waiting.over(attemptId)
      return keepMs > 0 ? store.keep(name, attemptId, keepMs) : store.free(name, attemptId)
    },

    async adopt(from, request) {
      const adopted = await tracked(request.attemptId, store.adopt(from, request))
      underWay.delete(request.attemptId)
      return adopted
    },

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

    break: (name, holder) => store.end(name, holder),

    diagnose: () => diagnose(connection, waitForReplicas),

    async prune(idleMs, names) {
      const kept = names && (await sharedAmong(connection, names))
      return { ...(await pruning.step(idleMs, names)), ...(kept && { kept }) }
    },

    async close() {
      waiting.close()
      connection.close()
      replicated.close()
    },
  }
}
