import type {
  AcquireRequest,
  Adapter,
  AdapterHost,
  Busy,
  Capabilities,
  CapabilitiesOf,
  Grant,
  Pruned,
  Renewal,
  RenewOutcome,
} from '@locks/core/adapter'
import {
  capabilities,
  isAttemptId,
  isLockError,
  keptAttemptId,
  orAfter,
  Upkeep,
  writeHolder,
} from '@locks/core/adapter'
import {
  claimed,
  holderFrom,
  MAX_FENCE,
  PRUNE_BATCH,
  renewLocked,
  SPARE_CONNECTIONS,
  unqueued,
  waitersFrom,
} from '@locks/sql'
import { PostgresConnection } from './connection.ts'
import { diagnose } from './diagnose.ts'
import { errors } from './errors.ts'
import { Listener } from './listener.ts'
import { tagOf } from './messages.ts'
import { notifying, uniqueKeyOperators } from './operators.ts'
import type { Settings } from './options.ts'
import { refusingPoolers } from './pooler.ts'
import { runnerFor } from './runner.ts'
import { bytesOf, uniqueKeyStatements } from './sql.ts'
import { strategyRecord } from './strategy.ts'
import { Waits } from './waits.ts'
import type { Wait } from './waits.ts'

/** A waiter looks at the store at least this often, which also keeps both clocks compared. */
const SAFETY_POLL_MS = 30_000

/** How often a waiter looks at the store while it cannot listen. */
const POLL_MS = 1_000

/** How long a waiter waits for the listening connection: with a long queue of notifications LISTEN is slow. */
const LISTEN_PATIENCE_MS = 2_000
/** After that it tries to listen again only this often. */
const LISTEN_AGAIN_MS = 5_000

/** Withdrawals that failed are remembered, in case a grant arrives after all; so many of them, the oldest go first. */
const MAX_ABANDONED = 10_000

const MAX_BUSY_NAMES = 10_000

/** Where a waiter is notified of a hand-off, and what proves it. */
interface Queue {
  readonly key: string
  readonly secret: string
}

const given = { handover: true, lockDelay: true, minHold: true, list: true, break: true } as const
/** With `listen: false`, waiters poll. */
const handingOff = { ...given, wait: 'handoff', fairness: 'fifo' } as const

export type UniqueKeyCapabilities = Capabilities & Omit<CapabilitiesOf<typeof given>, 'wait' | 'fairness'>

export function uniqueKeyAdapter(settings: Settings, { clock }: AdapterHost): Adapter<UniqueKeyCapabilities> {
  const sql = uniqueKeyStatements(settings.place)
  const runner = runnerFor(settings, clock)
  const spare = runnerFor({ ...settings, pool: undefined, poolSize: SPARE_CONNECTIONS }, clock)
  const waits = new Waits(clock)
  const upkeep = new Upkeep(clock, settings.fenceIdleMs, () => prune(settings.fenceIdleMs))
  /** Names that were busy when last asked for: the statement for free names would be one too many. */
  const busyNames = new Set<string>()
  /** Waits that were withdrawn here, and perhaps not yet at the store. */
  const abandoned = new Map<string, Wait>()
  /** A pooler stands in between, so listening never works. */
  let pooled = false
  /** After a try to listen that took too long: when to try again. */
  let listenAgainAt = -Infinity
  /** One moment on both clocks: the server's clock showed `storeMs` at `localMs` of ours, or later. */
  let exchange: { readonly localMs: number; readonly storeMs: number } | undefined

  const listener = new Listener(
    refusingPoolers((closing) => PostgresConnection.open(settings.config, { closing })),
    {
      granted(message) {
        const { tag, fence, storeMs } = message
        const wait = waits.tagged(tag)
        const known = wait ?? abandoned.get(tag)
        if (known === undefined) return
        // Every role may send messages: one without proof is only a reason to look at the store.
        if (!message.proven(known.secret)) return waits.hint(tag, 0)
        // Its withdrawal failed. If this one fails too, the claim expires.
        if (wait === undefined) return void withdraw(known.request).catch(() => undefined)
        const { name, attemptId } = wait.request
        waits.granted(
          wait,
          exchange && {
            name,
            attemptId,
            fence,
            ttlMs: Math.min(message.ttlMs, wait.request.ttlMs, settings.claimTtlMs),
            // If the server's clock was set forward meanwhile, the grant must not seem to lie in the future.
            grantedAt: Math.min(clock.now(), exchange.localMs + (storeMs - exchange.storeMs)),
          },
        )
      },
      next: (tag, claimMs) => waits.hint(tag, claimMs),
      disconnected: () => waits.wakeAll(),
    },
    clock,
  )

  async function ask(request: AcquireRequest, queue?: Queue): Promise<Grant | Busy> {
    const { name, attemptId, ttlMs, lockDelayMs } = request
    const values = [Buffer.from(name), attemptId, writeHolder(request), ttlMs, lockDelayMs]
    let localMs = clock.now()
    if (!busyNames.has(name)) {
      const took = await runner.find(sql.take, values)
      if (took !== undefined) {
        exchange = { localMs, storeMs: Number(took[1]) }
        waits.forget(attemptId)
        return { name, attemptId, fence: BigInt(took[0] ?? 0), ttlMs }
      }
      localMs = clock.now()
    }
    const { key = null, secret = null } = queue ?? {}
    const [row] = await notifying(runner, sql.attempt, [...values, settings.claimTtlMs, key, secret])
    const [granted, fence, holder, since, remaining, storeMs, first] = row
    exchange = { localMs, storeMs: Number(storeMs) }
    if (granted === 't') {
      busyNames.delete(name)
      waits.forget(attemptId)
      return { name, attemptId, fence: BigInt(fence ?? 0), ttlMs }
    }
    if (busyNames.size >= MAX_BUSY_NAMES) busyNames.clear()
    busyNames.add(name)
    const by = holderFrom(holder, fence, since)
    // The first in line looks when the hold can expire, of which there is no message; those behind it a ttl later.
    const endsInMs = Math.min(SAFETY_POLL_MS, Math.max(1, Math.ceil(Number(remaining))))
    const retryInMs = endsInMs + (first === 'f' ? Math.min(SAFETY_POLL_MS, ttlMs) : 0)
    return { busy: true, retryInMs, ...(by && { holder: by }) }
  }

  async function attempt(request: AcquireRequest): Promise<Grant | Busy> {
    if (!request.willWait || !settings.listen) return ask(request)
    if (!listener.ready) {
      const answer = await ask(request)
      if ('fence' in answer) return answer
      waits.expect(request)
      // The server answers, but messages cannot be received: poll.
      if (pooled || !(await listens())) return polled(answer)
    }
    const { secret } = waits.expect(request)
    const answer = await ask(request, { key: await listener.key(), secret })
    if ('busy' in answer) listener.prove()
    return answer
  }

  /** Whether the listening connection is ready. One that opens slowly may be ready the next time. */
  async function listens(): Promise<boolean> {
    if (clock.now() < listenAgainAt) return false
    const opened = listener.key().then(
      () => true,
      (error: unknown) => {
        pooled = isLockError(error, 'LOCK_UNSUPPORTED')
        return false
      },
    )
    const ready = await orAfter(clock, LISTEN_PATIENCE_MS, opened)
    if (ready === undefined) listenAgainAt = clock.now() + LISTEN_AGAIN_MS
    return ready === true
  }

  async function renewUnlocked(renewals: readonly Renewal[]): Promise<readonly (string | undefined)[]> {
    const columns = [
      renewals.map(({ grant }) => Buffer.from(grant.name)),
      renewals.map(({ grant }) => grant.attemptId),
      renewals.map(({ ttlMs }) => ttlMs),
      renewals.map(({ lockDelayMs }) => lockDelayMs),
    ]
    const rows = await unqueued(runner, spare, (on) => on.ask(sql.renew, columns))
    const outcomes = new Map(rows.map(([attemptId, outcome]) => [attemptId, outcome ?? undefined]))
    return renewals.map(({ grant }) => outcomes.get(grant.attemptId))
  }

  async function renewOne(renewal: Renewal, patienceMs: number): Promise<RenewOutcome> {
    const { grant, ttlMs, lockDelayMs } = renewal
    const values = [Buffer.from(grant.name), grant.attemptId, ttlMs, lockDelayMs, patienceMs]
    const [[outcome]] = await unqueued(runner, spare, (on) => on.ask(sql.renewLocked, values))
    return outcome === 'renewed' || outcome === 'lost' ? outcome : 'unknown'
  }

  async function prune(idleMs: number, names?: readonly string[]): Promise<Pruned> {
    const values = [idleMs, PRUNE_BATCH, bytesOf(names)]
    const [[count]] = await unqueued(runner, spare, (on) => on.ask(sql.prune, values))
    const pruned = Number(count)
    if (pruned === PRUNE_BATCH) return { pruned, more: true }
    await unqueued(runner, spare, (on) => on.run(sql.pruneWaiters, []))
    return { pruned, more: false }
  }

  function polled(busy: Busy): Busy {
    return { ...busy, retryInMs: Math.min(busy.retryInMs ?? POLL_MS, POLL_MS) }
  }

  async function withdraw(request: AcquireRequest): Promise<void> {
    const { name, attemptId } = request
    const wait = waits.forget(attemptId)
    if (wait !== undefined) abandoned.set(wait.tag, wait)
    const [oldest] = abandoned.keys()
    if (abandoned.size > MAX_ABANDONED && oldest !== undefined) abandoned.delete(oldest)
    await notifying(runner, sql.withdraw, [Buffer.from(name), attemptId])
    if (abandoned.size > 0) abandoned.delete(tagOf(attemptId))
  }

  const adapter: Adapter<UniqueKeyCapabilities> = {
    name: '@locks/postgres',
    capabilities: settings.listen ? capabilities(handingOff) : capabilities(given),
    attempt,
    withdraw,
    ...uniqueKeyOperators(sql, runner),
    diagnose: () => diagnose(settings, clock),
    prune,

    ...(settings.listen && {
      wait: (request, maxMs, signal) => waits.until(request.attemptId, maxMs, signal),
    }),

    async renew(renewals) {
      const outcomes = await renewUnlocked(renewals)
      const locked = renewals.filter((_, n) => outcomes[n] === 'locked')
      const late = locked.length === 0 ? undefined : await renewLocked(locked, clock, renewOne)
      return renewals.map((renewal, n) => {
        const outcome = outcomes[n]
        return outcome === 'renewed' || outcome === 'lost' ? outcome : (late?.get(renewal) ?? 'unknown')
      })
    },

    async release({ name, attemptId }, keepMs = 0) {
      const values = [Buffer.from(name), attemptId]
      if (keepMs > 0) {
        const keep = [...values, keptAttemptId(attemptId), keepMs]
        const [[kept]] = await notifying(runner, sql.keep, keep)
        upkeep.released()
        return kept === 't' ? 'released' : 'not-held'
      }
      if (!busyNames.has(name)) {
        const [[released]] = await runner.ask(sql.give, values)
        upkeep.released()
        if (released === 't') return 'released'
      }
      const [[outcome]] = await notifying(runner, sql.release, values)
      upkeep.released()
      if (outcome === 'released' || outcome === 'not-held') return outcome
      throw errors.unavailable('the server did not say whether the lock was released; the outcome is unknown')
    },

    async adopt(from, request) {
      const { name, attemptId, ttlMs, lockDelayMs } = request
      // The text of a lease comes from outside.
      if (!isAttemptId(from.attemptId) || from.fence < 1n || from.fence > MAX_FENCE) return 'lost'
      const about = [attemptId, writeHolder(request), ttlMs, lockDelayMs]
      const values = [Buffer.from(name), from.attemptId, String(from.fence), ...about]
      const [[fence]] = await runner.ask(sql.adopt, values)
      return fence === null || fence === undefined ? 'lost' : { name, attemptId, fence: BigInt(fence), ttlMs }
    },

    async inspect(name) {
      const [row] = await runner.ask(sql.inspect, [Buffer.from(name)])
      const [fence, holder, since, remaining, waiters, waiting] = row
      const by = holderFrom(holder, fence, since)
      const queue = { waiters: Number(waiters ?? 0), waiting: waitersFrom(waiting) }
      if (by === undefined) return { name, held: false, ...queue }
      return { name, held: true, holder: by, remainingMs: Math.max(0, Number(remaining)), ...queue }
    },

    async close() {
      waits.wakeAll()
      await upkeep.close()
      await Promise.all([listener.close(), runner.close(), spare.close()])
    },
  }
  return claimed(adapter, 'unique-key', strategyRecord(settings.place, runner), errors)
}
