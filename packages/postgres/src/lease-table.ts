import { isAttemptId, keptAttemptId, writeHolder } from '@locks/core/adapter'
import type { AcquireRequest, Adapter, Busy, Clock, Grant, Renewal, RenewOutcome } from '@locks/core/adapter'
import { holderFrom, MAX_FENCE, PRUNE_BATCH, renewLocked, stateFrom, unqueued, waitersFrom } from '@locks/sql'
import type { Statement } from './connection.ts'
import { errors, isQueueFull } from './errors.ts'
import { sqlTagOf } from './messages.ts'
import type { Tables, Settings } from './options.ts'
import type { Runner } from './runner.ts'
import { bytesOf, durable, epochMs, namesOf, onPrimary, statement, statesOf } from './sql.ts'

/** A waiter looks at the store at least this often, which also keeps both clocks compared. */
const SAFETY_POLL_MS = 30_000

const MAX_FREE_NAMES = 10_000

/** Where a waiter is notified of a hand-off, and what proves it. */
interface Queue {
  readonly key: string
  readonly secret: string
}

type Verbs = 'attempt' | 'withdraw' | 'renew' | 'release' | 'adopt' | 'inspect' | 'list' | 'break' | 'prune'

/** The table of leases: what each call of an adapter sends to the server, without waiting for a lock. */
export interface LeaseTable extends Required<Pick<Adapter, Verbs>> {
  /** What `attempt` does for a name that is likely to be free, at less cost. Undefined: call `attempt`. */
  readonly take: (request: AcquireRequest) => Promise<Grant | undefined>
  /** With `queue` the request enters the queue of a name that is taken. */
  attempt(request: AcquireRequest, queue?: Queue): Promise<Grant | Busy>
  /** When the server's clock showed `storeMs`, on ours or later; undefined before the first attempt. */
  readonly localMs: (storeMs: number) => number | undefined
}

/** Work that must not queue behind other statements may run on `spare`. */
export function leaseTable(settings: Settings, runner: Runner, spare: Runner, clock: Clock): LeaseTable {
  const sql = statementsOf(settings)
  /**
   * Names that were granted when last asked for. Their row exists and is often free again, for which there is a cheaper
   * statement. For all others, above all those that are used once, it would be one too many.
   */
  const freeNames = new Set<string>()
  /** One moment on both clocks: the server's clock showed `storeMs` at `localMs` of ours, or later. */
  let exchange: { readonly localMs: number; readonly storeMs: number } | undefined

  const urgently = <T>(work: (on: Runner) => Promise<T>): Promise<T> => unqueued(runner, spare, work)

  /**
   * For a statement that may hand a lock off. Its last value says whether it notifies the next in line. If the server's
   * queue of notifications is full it runs again without, so that the lock is free all the same.
   */
  function notifying(text: Statement, values: unknown[]): ReturnType<Runner['ask']> {
    return runner.ask(text, [...values, true]).catch((error: unknown) => {
      if (!isQueueFull(error)) throw error
      return runner.ask(text, [...values, false])
    })
  }

  async function renewOne(renewal: Renewal, patienceMs: number): Promise<RenewOutcome> {
    const { grant, ttlMs, lockDelayMs } = renewal
    const values = [Buffer.from(grant.name), grant.attemptId, ttlMs, lockDelayMs, patienceMs]
    const [[outcome]] = await urgently((on) => on.ask(sql.renewLocked, values))
    return known(outcome)
  }

  return {
    localMs: (storeMs) => exchange && exchange.localMs + (storeMs - exchange.storeMs),

    async take(request) {
      const { name, attemptId, ttlMs } = request
      if (!freeNames.has(name)) return undefined
      const localMs = clock.now()
      const took = await runner.find(sql.take, wantedOf(request))
      if (took === undefined) return undefined
      exchange = { localMs, storeMs: Number(took[1]) }
      return { name, attemptId, fence: BigInt(took[0] ?? 0), ttlMs }
    },

    async attempt(request, queue) {
      const { name, attemptId, ttlMs } = request
      const localMs = clock.now()
      const { key = null, secret = null } = queue ?? {}
      const values = [...wantedOf(request), settings.claimTtlMs, key, secret]
      const [row] = await notifying(sql.attempt, values)
      const [granted, fence, holder, since, remaining, storeMs, first] = row
      exchange = { localMs, storeMs: Number(storeMs) }
      if (granted === 't') {
        if (freeNames.size >= MAX_FREE_NAMES) freeNames.clear()
        freeNames.add(name)
        return { name, attemptId, fence: BigInt(fence ?? 0), ttlMs }
      }
      freeNames.delete(name)
      const by = holderFrom(holder, fence, since)
      // The first in line looks when the hold can expire, of which there is no message; those behind it a ttl later.
      const endsInMs = Math.min(SAFETY_POLL_MS, Math.max(1, Math.ceil(Number(remaining))))
      const retryInMs = endsInMs + (first === 'f' ? Math.min(SAFETY_POLL_MS, ttlMs) : 0)
      return { busy: true, retryInMs, ...(by && { holder: by }) }
    },

    async withdraw({ name, attemptId }) {
      await notifying(sql.withdraw, [Buffer.from(name), attemptId])
    },

    async renew(renewals) {
      const columns = [
        renewals.map(({ grant }) => Buffer.from(grant.name)),
        renewals.map(({ grant }) => grant.attemptId),
        renewals.map(({ ttlMs }) => ttlMs),
        renewals.map(({ lockDelayMs }) => lockDelayMs),
      ]
      const rows = await urgently((on) => on.ask(sql.renew, columns))
      const answers = new Map(rows.map(([attemptId, outcome]) => [attemptId, outcome]))
      const outcomeOf = ({ grant }: Renewal): unknown => answers.get(grant.attemptId)
      const locked = renewals.filter((renewal) => outcomeOf(renewal) === 'locked')
      const late = await renewLocked(locked, clock, renewOne)
      return renewals.map((renewal) => late.get(renewal) ?? known(outcomeOf(renewal)))
    },

    async release({ name, attemptId }, keepMs = 0) {
      const values = [Buffer.from(name), attemptId]
      if (keepMs > 0) {
        const [[kept]] = await notifying(sql.keep, [...values, keptAttemptId(attemptId), keepMs])
        return kept === 't' ? 'released' : 'not-held'
      }
      if (freeNames.has(name)) {
        const [[released]] = await runner.ask(sql.give, values)
        if (released === 't') return 'released'
      }
      const [[outcome]] = await notifying(sql.release, values)
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
      const [[waiters, waiting, ...row]] = await runner.ask(sql.inspect, [Buffer.from(name)])
      const queue = { waiters: Number(waiters ?? 0), waiting: waitersFrom(waiting) }
      const state = stateFrom(name, row)
      return state.holder === undefined ? { name, held: false, ...queue } : { ...state, ...queue }
    },

    list: async (limit) => statesOf(await runner.ask(sql.list, [limit])),

    async break(name, { fence }) {
      // No hold has the fence 0.
      const [[outcome]] = await notifying(sql.break, [Buffer.from(name), String(fence ?? 0n)])
      return outcome === 'broken' ? 'broken' : 'not-held'
    },

    async prune(idleMs, names) {
      const values = [idleMs, PRUNE_BATCH, bytesOf(names)]
      const [[count]] = await urgently((on) => on.ask(sql.prune, values))
      const pruned = Number(count)
      if (pruned === PRUNE_BATCH) return { pruned, more: true }
      await urgently((on) => on.run(sql.pruneWaiters, []))
      return { pruned, more: false }
    },
  }
}

/** The first values of statements that begin a hold. */
function wantedOf(request: AcquireRequest): unknown[] {
  const { name, attemptId, ttlMs, lockDelayMs } = request
  return [Buffer.from(name), attemptId, writeHolder(request), ttlMs, lockDelayMs]
}

function known(outcome: unknown): RenewOutcome {
  return outcome === 'renewed' || outcome === 'lost' ? outcome : 'unknown'
}

/**
 * Each takes a nonce as its last value and returns it as the first column of every row, so that the reply to another
 * statement is recognised. All but `take` always return a row, so that a reply without one is wrong.
 */
function statementsOf(tables: Tables) {
  const to = namesOf(tables)
  return {
    // What the functions do without contention, at less cost. No row: call the functions. Under an isolation level that
    // they refuse there is no row either: a hold that cannot be handed off must not begin.
    take: statement(`UPDATE ${to.locks} SET fence = fence + 1, attempt = $2, holder = $3, since = clock_timestamp(),
  expires_at = clock_timestamp() + $4::int * interval '1 millisecond',
  blocked_until = clock_timestamp() + ($4::int + $5::int) * interval '1 millisecond'
WHERE name = $1 AND attempt IS NULL AND current_setting('transaction_isolation') LIKE 'read %'
RETURNING $6::text, fence, ${epochMs('clock_timestamp()')}, ${durable}`),
    give: statement(`WITH given AS (
  UPDATE ${to.locks} SET attempt = NULL, holder = NULL, expires_at = NULL, blocked_until = NULL
  WHERE name = $1 AND attempt = $2 AND NOT queued AND blocked_until > clock_timestamp() RETURNING ${durable}
) SELECT $3::text, EXISTS (SELECT FROM given)`),
    // Uses no function of a later schema. Once the row is locked, the first in line learns when to look again.
    keep: statement(`WITH kept AS (
  UPDATE ${to.locks} SET attempt = $3, expires_at = clock_timestamp(),
    blocked_until = clock_timestamp() + $4::int * interval '1 millisecond'
  WHERE name = $1 AND attempt = $2 AND blocked_until > clock_timestamp() RETURNING name, queued, ${durable}
) SELECT $6::text, EXISTS (SELECT FROM kept), (
  SELECT pg_notify('locks_' || first.listener, concat_ws(' ', 'next', ${sqlTagOf('first.attempt')}, $4::int))
  FROM kept, LATERAL ${to.first}(kept.name) first WHERE kept.queued AND $5 AND first.attempt IS NOT NULL
)`),
    attempt: statement(`SELECT $10::text, * FROM ${to.attempt}($1, $2, $3, $4, $5, $6, $7, $8, $9)`),
    release: statement(`SELECT $4::text, ${to.release}($1, $2, $3)`),
    withdraw: statement(`SELECT $4::text, ${to.withdraw}($1, $2, $3)`),
    renew: statement(`SELECT $5::text, * FROM ${to.renew}($1::bytea[], $2::text[], $3::int[], $4::int[])`),
    renewLocked: statement(`SELECT $6::text, ${to.renewLocked}($1, $2, $3, $4, $5)`),
    adopt: statement(`SELECT $8::text, ${to.adopt}($1, $2, $3, $4, $5, $6, $7)`),
    inspect: statement(
      `SELECT $2::text, o_waiters, ${to.waiting}($1), seen.* FROM ${to.inspect}($1) AS seen WHERE ${onPrimary}`,
    ),
    list: statement(`WITH held AS MATERIALIZED (
  SELECT * FROM ${to.locks} WHERE attempt IS NOT NULL AND blocked_until > clock_timestamp() AND ${onPrimary} LIMIT $1
) SELECT $2::text, encode(held.name, 'hex'), fence, holder, ${epochMs('since')},
  ${epochMs('(blocked_until - clock_timestamp())')},
  (SELECT o_waiters FROM ${to.inspect}(held.name))
FROM (SELECT) AS once LEFT JOIN held ON true`),
    break: statement(`SELECT $4::text, ${to.break}($1, $2, $3)`),
    prune: statement(`SELECT $4::text, ${to.prune}($1, $2, $3)`),
    pruneWaiters: statement(`SELECT ${to.pruneWaiters}()`),
  }
}
