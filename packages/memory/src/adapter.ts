import { capabilities, keptAttemptId, Wake } from '@locks/core/adapter'
import type {
  AcquireRequest,
  Adapter,
  AdapterHost,
  CapabilitiesOf,
  Grant,
  Handover,
  Holder,
  HolderMetadata,
  LockState,
  PushedGrant,
} from '@locks/core/adapter'

const given = {
  scope: 'process',
  wait: 'handoff',
  fairness: 'fifo',
  handover: true,
  lockDelay: true,
  minHold: true,
  list: true,
  break: true,
  minTtlMs: 10,
} as const

export type MemoryCapabilities = CapabilitiesOf<typeof given>

/** The last hold of a name. It stays here after its end until the next call for the name. */
interface Held extends Term {
  readonly attemptId: string
  readonly owner: string
  readonly metadata: HolderMetadata
  readonly fence: bigint
  readonly since: number
}

interface Term {
  readonly grantedAt: number
  /** When the hold ends. */
  readonly expiresAt: number
  /** When the name is free: later than `expiresAt` by a lock-delay or a minimum hold. */
  readonly blockedUntil: number
}

interface Entry {
  held: Held | undefined
  /** By attempt id, in the order they came. */
  readonly queue: Map<string, Waiter>
}

interface Waiter {
  readonly request: AcquireRequest
  readonly since: number
  readonly wake: Wake
}

export interface MemoryStore {
  readonly entries: Map<string, Entry>
  /** One counter for all names: fences rise even if a free name was forgotten. */
  lastFence: bigint
  /** How many names there may be before expired ones are removed. */
  sweepAt: number
}

const SWEEP_AT = 100

export function memoryAdapter(store: MemoryStore, { clock }: AdapterHost): Adapter<MemoryCapabilities> {
  const { entries } = store

  function entryOf(name: string): Entry {
    let entry = entries.get(name)
    if (entry === undefined) {
      if (entries.size >= store.sweepAt) sweep()
      entries.set(name, (entry = { held: undefined, queue: new Map() }))
    }
    return entry
  }

  /** Forgets expired names that were never released. At every doubling, so a new name costs next to nothing. */
  function sweep(): void {
    for (const [name, entry] of entries)
      if (entry.queue.size === 0 && blockerOf(entry) === undefined) entries.delete(name)
    store.sweepAt = Math.max(SWEEP_AT, entries.size * 2)
  }

  /** What keeps the name from others: a hold, its lock-delay or its minimum hold. */
  function blockerOf(entry: Entry | undefined): Held | undefined {
    return entry?.held !== undefined && clock.now() < entry.held.blockedUntil ? entry.held : undefined
  }

  function isHolder(held: Held, attemptId: string): boolean {
    return held.attemptId === attemptId && clock.now() < held.expiresAt
  }

  /** Never brings an end forward: an older call may arrive late. */
  function term({ ttlMs, lockDelayMs }: Pick<AcquireRequest, 'ttlMs' | 'lockDelayMs'>, held?: Held): Term {
    const now = clock.now()
    const expiresAt = Math.max(now + ttlMs, held?.expiresAt ?? 0)
    return {
      grantedAt: now,
      expiresAt,
      blockedUntil: Math.max(expiresAt + lockDelayMs, held?.blockedUntil ?? 0),
    }
  }

  function give(entry: Entry, request: AcquireRequest): Held {
    const { attemptId, owner, metadata } = request
    const fence = ++store.lastFence
    return (entry.held = { attemptId, owner, metadata, fence, since: Date.now(), ...term(request) })
  }

  /** A released hold whose name stays taken. Under another id, so that no late call of its attempt finds it. */
  function kept(held: Held | undefined, keepMs: number): Held | undefined {
    const now = clock.now()
    return (
      held && {
        ...held,
        attemptId: keptAttemptId(held.attemptId),
        expiresAt: now,
        blockedUntil: now + keepMs,
      }
    )
  }

  /** A free name goes to the head of its queue, or is forgotten. */
  function passOn(name: string, entry: Entry): void {
    const [first] = entry.queue.values()
    if (blockerOf(entry) === undefined) {
      if (first === undefined) return void entries.delete(name)
      entry.queue.delete(first.request.attemptId)
      give(entry, first.request)
      first.wake.wake()
    }
    // A holder may end without a release, so the next waiter must not sleep past its end.
    const [next] = entry.queue.values()
    if (entry.held !== undefined) next?.wake.wakeBy(entry.held.blockedUntil)
  }

  function stateOf(name: string): LockState {
    const entry = entries.get(name)
    const held = blockerOf(entry)
    const queue = [...(entry?.queue.values() ?? [])]
    const waiting = queue.map(({ request: { owner, metadata }, since }) => ({ owner, metadata, since }))
    const waiters = { waiters: queue.length, waiting }
    if (held === undefined) return { name, held: false, ...waiters }
    const remainingMs = held.blockedUntil - clock.now()
    return { name, held: true, holder: describe(held), remainingMs, ...waiters }
  }

  return {
    name: '@locks/memory',
    capabilities: capabilities(given),

    async attempt(request) {
      const { name, attemptId } = request
      const entry = entryOf(name)
      // The first call after an expiry serves the queue, so no waiter depends on a timer here.
      if (entry.queue.size > 0) passOn(name, entry)
      const held = blockerOf(entry)
      if (held === undefined) return grantOf(request, give(entry, request))
      if (isHolder(held, attemptId)) {
        entry.held = { ...held, ...term(request, held) }
        return grantOf(request, held)
      }
      // Its own hold that is over was never answered, or it would not ask again: no client acts under it.
      if (held.attemptId === attemptId) return grantOf(request, give(entry, request))
      if (request.willWait && !entry.queue.has(attemptId))
        entry.queue.set(attemptId, { request, since: Date.now(), wake: new Wake(clock) })
      return { busy: true, holder: describe(held), retryInMs: Math.max(1, held.blockedUntil - clock.now()) }
    },

    async wait(request, maxMs, signal) {
      const { name, attemptId } = request
      const entry = entries.get(name)
      const waiter = entry?.queue.get(attemptId)
      if (entry !== undefined && waiter !== undefined) {
        // The holder may have changed since the busy answer.
        waiter.wake.wakeBy(entry.held?.blockedUntil ?? 0)
        await waiter.wake.sleep(maxMs, { signal, keepAlive: true })
      }
      const held = entries.get(name)?.held
      return held !== undefined && isHolder(held, attemptId) ? pushedGrant(request, held) : undefined
    },

    async withdraw({ name, attemptId }) {
      const entry = entries.get(name)
      if (entry === undefined) return
      entry.queue.delete(attemptId)
      if (entry.held?.attemptId === attemptId) entry.held = undefined
      passOn(name, entry)
    },

    async renew(renewals) {
      return renewals.map(({ grant, ...lengths }) => {
        const entry = entries.get(grant.name)
        const held = entry?.held
        if (entry === undefined || held === undefined || !isHolder(held, grant.attemptId)) return 'lost'
        entry.held = { ...held, ...term(lengths, held) }
        return 'renewed'
      })
    },

    async release({ name, attemptId }, keepMs = 0) {
      const entry = entries.get(name)
      if (entry === undefined) return 'not-held'
      const held = blockerOf(entry)?.attemptId === attemptId
      if (held) entry.held = keepMs > 0 ? kept(entry.held, keepMs) : undefined
      passOn(name, entry)
      return held ? 'released' : 'not-held'
    },

    async adopt(from: Handover, request) {
      const entry = entries.get(request.name)
      const held = entry?.held
      const { attemptId, owner, metadata } = request
      if (entry === undefined || held === undefined || held.fence !== from.fence) return 'lost'
      if (!isHolder(held, from.attemptId) && !isHolder(held, attemptId)) return 'lost'
      entry.held = { ...held, ...term(request, held), attemptId, owner, metadata }
      return grantOf(request, held)
    },

    inspect: async (name) => stateOf(name),

    async list(limit) {
      const states = [...entries.keys()].map((name) => stateOf(name))
      return states.filter(({ held }) => held).slice(0, limit)
    },

    async break(name, { fence }) {
      const entry = entries.get(name)
      if (entry === undefined || blockerOf(entry)?.fence !== fence) return 'not-held'
      entry.held = undefined
      passOn(name, entry)
      return 'broken'
    },
  }
}

function grantOf({ name, attemptId, ttlMs }: AcquireRequest, { fence }: Held): Grant {
  return { name, attemptId, fence, ttlMs }
}

function pushedGrant(request: AcquireRequest, held: Held): PushedGrant {
  return { ...grantOf(request, held), grantedAt: held.grantedAt }
}

function describe({ owner, fence, metadata, since }: Held): Holder {
  return { owner, fence, metadata, since }
}
