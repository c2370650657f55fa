import { keptAttemptId } from '@locks/core/adapter'
import type {
  AcquireRequest,
  Adapter,
  AdapterHost,
  Grant,
  Handover,
  Holder,
  HolderMetadata,
  LockState,
  PushedGrant,
} from '@locks/core/adapter'

export const capabilities = {
  scope: 'process',
  kind: 'lease',
  fencing: 'durable',
  wait: 'handoff',
  fairness: 'fifo',
  handover: true,
  lockDelay: true,
  minHold: true,
  list: true,
  break: true,
  modes: ['exclusive'],
  minTtlMs: 10,
  maxNameBytes: 1024,
} as const

export type MemoryCapabilities = typeof capabilities

/** Who has a name, and until when. One whose time is over may still stand here. */
interface Held extends Term {
  readonly attemptId: string
  readonly owner: string
  readonly metadata: HolderMetadata
  readonly fence: bigint
  readonly since: number
}

interface Term {
  readonly grantedAt: number
  /** When the holder's time is over. */
  readonly expiresAt: number
  /** When others may have the name: later by the lock-delay, unless it is released, or at the end of a minimum hold. */
  readonly blockedUntil: number
}

interface Entry {
  held: Held | undefined
  /** Waiting requests by attempt id, first come first served. */
  readonly queue: Map<string, Waiter>
}

interface Waiter {
  readonly request: AcquireRequest
  readonly since: number
  /** Present while its client listens; it looks for itself at `looksAt`. */
  wake?: () => void
  looksAt: number
}

export interface MemoryStore {
  readonly entries: Map<string, Entry>
  /** One counter for all names, so that a free name can be forgotten and fences still only rise. */
  lastFence: bigint
  /** How many names there may be before those that expired are looked for. */
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

  /** Forgets names that nobody released. At every doubling, so that it costs a new name next to nothing. */
  function sweep(): void {
    for (const [name, entry] of entries)
      if (entry.queue.size === 0 && blockerOf(entry) === undefined) entries.delete(name)
    store.sweepAt = Math.max(SWEEP_AT, entries.size * 2)
  }

  /** Whoever keeps the name from others: its holder, or one whose lock-delay runs. */
  function blockerOf(entry: Entry | undefined): Held | undefined {
    return entry?.held !== undefined && clock.now() < entry.held.blockedUntil ? entry.held : undefined
  }

  function isHolder(held: Held, attemptId: string): boolean {
    return held.attemptId === attemptId && clock.now() < held.expiresAt
  }

  /** Never brings an end forward: a message that was overtaken may arrive late. */
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

  /** What a release leaves of a hold whose name stays taken. No call of its attempt finds it any more. */
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
      first.wake?.()
    }
    // Nobody may tell of the end of a hold, so the next in line must not sleep past it.
    const [next] = entry.queue.values()
    if (next !== undefined && entry.held !== undefined && entry.held.blockedUntil < next.looksAt)
      next.wake?.()
  }

  function stateOf(name: string): LockState {
    const entry = entries.get(name)
    const held = blockerOf(entry)
    const queue = [...(entry?.queue.values() ?? [])]
    const waiting = queue.map(({ request: { owner, metadata }, since }) => ({ owner, metadata, since }))
    const line = { waiters: queue.length, waiting }
    if (held === undefined) return { name, held: false, ...line }
    const remainingMs = held.blockedUntil - clock.now()
    return { name, held: true, holder: describe(held), remainingMs, ...line }
  }

  return {
    name: '@locks/memory',
    capabilities,

    async attempt(request) {
      const { name, attemptId } = request
      const entry = entryOf(name)
      // Whoever comes first after an expiry serves the queue, so no waiter depends on a timer here.
      if (entry.queue.size > 0) passOn(name, entry)
      const held = blockerOf(entry)
      if (held === undefined) return grantOf(request, give(entry, request))
      if (isHolder(held, attemptId)) {
        entry.held = { ...held, ...term(request, held) }
        return grantOf(request, held)
      }
      if (request.willWait && !entry.queue.has(attemptId))
        entry.queue.set(attemptId, { request, since: Date.now(), looksAt: Infinity })
      return { busy: true, holder: describe(held), retryInMs: Math.max(1, held.blockedUntil - clock.now()) }
    },

    async wait(request, maxMs, signal) {
      const { name, attemptId } = request
      const entry = entries.get(name)
      const waiter = entry?.queue.get(attemptId)
      if (waiter !== undefined && !signal.aborted)
        await new Promise<void>((resolve) => {
          // Whoever has the name may have got it since the busy answer.
          waiter.looksAt = Math.min(clock.now() + maxMs, entry?.held?.blockedUntil ?? Infinity)
          const timer = clock.timer(Math.max(0, waiter.looksAt - clock.now()), done)
          timer.keepAlive(true)
          signal.addEventListener('abort', done, { once: true })
          waiter.wake = done
          function done(): void {
            timer.cancel()
            signal.removeEventListener('abort', done)
            if (waiter?.wake === done) delete waiter.wake
            resolve()
          }
        })
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

    async close() {},
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
