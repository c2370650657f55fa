import type {
  AcquireRequest,
  Adapter,
  AdapterHost,
  Busy,
  Capabilities,
  Grant,
  PushedGrant,
} from '@locks/core'
import { isLockError } from '@locks/core'
import { readHolder, UnderWay, writeHolder } from '@locks/sql'
import { diagnose } from './diagnose.ts'
import { Line } from './line.ts'
import { Listener } from './listener.ts'
import { uniqueKeyOperations } from './operations.ts'
import type { Settings } from './options.ts'
import { refusingPoolers } from './pooler.ts'
import { runnerFor } from './runner.ts'
import { uniqueKeyStatements } from './sql.ts'
import { Waits } from './waits.ts'

/** However long a holder may stay: a waiter looks for itself this often, which also keeps the clocks compared. */
const SAFETY_POLL_MS = 30_000

/** How often a waiter looks for itself while it cannot listen. */
const DEAF_POLL_MS = 1_000

/** Withdrawals that failed are remembered, in case a grant comes after all; not all of them for ever. */
const MOST_ABANDONED = 10_000

const MOST_CROWDED = 10_000

/** The highest fence that a column can hold. */
const MOST = 9_223_372_036_854_775_807n

export interface UniqueKeyCapabilities extends Capabilities {
  readonly kind: 'lease'
  readonly fencing: 'durable'
  readonly handover: true
  readonly lockDelay: true
}

const handingOver: UniqueKeyCapabilities = {
  scope: 'cluster',
  kind: 'lease',
  fencing: 'durable',
  wait: 'handoff',
  fairness: 'fifo',
  handover: true,
  lockDelay: true,
  list: true,
  break: true,
  modes: ['exclusive'],
  minTtlMs: 100,
  maxNameBytes: 1024,
}
const polling: UniqueKeyCapabilities = { ...handingOver, wait: 'poll', fairness: 'none' }

export function uniqueKeyAdapter(settings: Settings, { clock }: AdapterHost): Adapter<UniqueKeyCapabilities> {
  const sql = uniqueKeyStatements(settings.place)
  const runner = runnerFor(settings, clock)
  const waits = new Waits(clock)
  const underWay = new UnderWay()
  /** Names that somebody else had when we last asked: the short way would be one statement too many. */
  const crowded = new Set<string>()
  /** Given up here, but perhaps not there. */
  const abandoned = new Map<string, AcquireRequest>()
  /** A pooler in between keeps everybody from listening, for good. */
  let pooled = false
  /** The last exchange on both clocks: the server read its own at our `localMs` or later. */
  let exchange: { readonly localMs: number; readonly storeMs: number } | undefined

  const listener = new Listener(
    refusingPoolers((closing) => Line.open(settings.config, { closing })),
    {
      granted(attemptId, fence, ttlMs, storeMs) {
        const grantOf = ({ name }: AcquireRequest): PushedGrant | undefined =>
          exchange && {
            name,
            attemptId,
            fence,
            ttlMs,
            // A clock that was set forward in between must not make it younger than it can be.
            grantedAt: Math.min(clock.now(), exchange.localMs + (storeMs - exchange.storeMs)),
          }
        const request = abandoned.get(attemptId)
        // Its withdrawal had failed. If this one does too, the claim runs out by itself.
        if (!waits.granted(attemptId, grantOf) && request !== undefined)
          withdraw(request).catch(() => undefined)
      },
      next: (attemptId, claimMs) => waits.hurry(attemptId, claimMs),
      deaf: () => waits.wakeAll(),
    },
    clock,
  )

  async function ask(request: AcquireRequest, listenerKey: string | null): Promise<Grant | Busy> {
    const { name, attemptId, ttlMs, lockDelayMs } = request
    const values = [Buffer.from(name), attemptId, writeHolder(request), ttlMs, lockDelayMs]
    let localMs = clock.now()
    if (!crowded.has(name)) {
      const [took] = await runner.run(sql.take, values)
      if (took !== undefined) {
        exchange = { localMs, storeMs: Number(took[1]) }
        waits.forget(attemptId)
        return { name, attemptId, fence: BigInt(took[0] ?? 0), ttlMs }
      }
      localMs = clock.now()
    }
    const [row = []] = await runner.run(sql.attempt, [...values, settings.claimTtlMs, listenerKey])
    const [granted, fence, holder, since, remaining, storeMs, first] = row
    exchange = { localMs, storeMs: Number(storeMs) }
    if (granted === 't') {
      crowded.delete(name)
      waits.forget(attemptId)
      return { name, attemptId, fence: BigInt(fence ?? 0), ttlMs }
    }
    if (crowded.size >= MOST_CROWDED) crowded.clear()
    crowded.add(name)
    const by = readHolder(holder, fence, since)
    // The first in line looks after an end that nobody tells of; those behind it, a ttl later, after the first in line.
    const endsInMs = Math.min(SAFETY_POLL_MS, Math.max(1, Math.ceil(Number(remaining))))
    const retryInMs = endsInMs + (first === 'f' ? Math.min(SAFETY_POLL_MS, ttlMs) : 0)
    return { busy: true, retryInMs, ...(by && { holder: by }) }
  }

  async function attempt(request: AcquireRequest): Promise<Grant | Busy> {
    if (!request.willWait || !settings.listen) return ask(request, null)
    if (!listener.ready) {
      const answer = await ask(request, null)
      if ('fence' in answer) return answer
      waits.expect(request)
      try {
        if (pooled) return slowly(answer)
        await listener.key()
      } catch (error) {
        // The server answers, but has no connection to spare for listening: better slowly than not at all.
        pooled = isLockError(error, 'LOCK_UNSUPPORTED')
        return slowly(answer)
      }
    }
    waits.expect(request)
    const answer = await ask(request, await listener.key())
    if ('busy' in answer) listener.prove()
    return answer
  }

  function slowly(busy: Busy): Busy {
    return { ...busy, retryInMs: Math.min(busy.retryInMs ?? DEAF_POLL_MS, DEAF_POLL_MS) }
  }

  async function withdraw(request: AcquireRequest): Promise<void> {
    const { name, attemptId } = request
    waits.forget(attemptId)
    abandoned.set(attemptId, request)
    const [oldest] = abandoned.keys()
    if (abandoned.size > MOST_ABANDONED && oldest !== undefined) abandoned.delete(oldest)
    await underWay.after(attemptId, () => runner.run(sql.withdraw, [Buffer.from(name), attemptId]))
    abandoned.delete(attemptId)
  }

  return {
    capabilities: settings.listen ? handingOver : polling,
    attempt: (request) => underWay.run(request.attemptId, () => attempt(request)),
    withdraw,
    ...uniqueKeyOperations(sql, runner),
    diagnose: () => diagnose(settings, clock),

    ...(settings.listen && {
      wait: (request, maxMs, signal) => waits.until(request.attemptId, maxMs, signal),
    }),

    async renew(renewals) {
      const columns = [
        renewals.map(({ grant }) => Buffer.from(grant.name)),
        renewals.map(({ grant }) => grant.attemptId),
        renewals.map(({ ttlMs }) => ttlMs),
        renewals.map(({ lockDelayMs }) => lockDelayMs),
      ]
      const rows = await runner.run(sql.renew, columns)
      const renewed = new Set(rows.map(([attemptId]) => attemptId))
      return renewals.map(({ grant }) => (renewed.has(grant.attemptId) ? 'renewed' : 'lost'))
    },

    async release({ name, attemptId }) {
      const values = [Buffer.from(name), attemptId]
      if (!crowded.has(name) && (await runner.run(sql.give, values)).length > 0) return 'released'
      const [[outcome] = []] = await runner.run(sql.release, values)
      return outcome === 'not-held' ? 'not-held' : 'released'
    },

    async adopt(from, request) {
      const { name, attemptId, ttlMs, lockDelayMs } = request
      // The text of a lease comes from outside; the server would refuse what none of ours can be.
      if (from.attemptId.includes('\0') || from.fence < 1n || from.fence > MOST) return 'lost'
      const about = [attemptId, writeHolder(request), ttlMs, lockDelayMs]
      const values = [Buffer.from(name), from.attemptId, String(from.fence), ...about]
      const [[fence] = []] = await underWay.run(attemptId, () => runner.run(sql.adopt, values))
      return fence === null || fence === undefined ? 'lost' : { name, attemptId, fence: BigInt(fence), ttlMs }
    },

    async inspect(name) {
      const [row = []] = await runner.run(sql.inspect, [Buffer.from(name)])
      const [fence, holder, since, remaining, waiters] = row
      const by = readHolder(holder, fence, since)
      const queue = { waiters: Number(waiters ?? 0) }
      if (by === undefined) return { name, held: false, ...queue }
      return { name, held: true, holder: by, remainingMs: Math.max(0, Number(remaining)), ...queue }
    },

    async close() {
      waits.wakeAll()
      await Promise.all([listener.close(), runner.close()])
    },
  }
}
