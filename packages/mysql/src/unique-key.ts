import { capabilities, isAttemptId, keptAttemptId } from '@locks/core/adapter'
import type { Adapter, AdapterHost, CapabilitiesOf, LockState } from '@locks/core/adapter'
import { SPARE_CONNECTIONS, stateFrom, tableAdapter, unqueued } from '@locks/sql'
import type { Values } from './connection.ts'
import { diagnose } from './diagnose.ts'
import { MAX_FENCE, newEcho, numberIn, surelyWrote, wrote } from './echo.ts'
import type { Tables, Settings } from './options.ts'
import { pruneCounters } from './prune.ts'
import { renewer } from './renewals.ts'
import { bytesOf, runnerFor } from './runner.ts'
import type { Runner } from './runner.ts'
import { namesOf } from './schema.ts'
import { after, echoing, epochMs, later, now, once, onPrimary } from './sql.ts'
import { strategyRecord } from './strategy.ts'
import { tableCreation } from './tables.ts'

const given = { handover: true, lockDelay: true, minHold: true, list: true, break: true } as const
export type UniqueKeyCapabilities = CapabilitiesOf<typeof given>

export function uniqueKeyAdapter(settings: Settings, { clock }: AdapterHost): Adapter<UniqueKeyCapabilities> {
  const sql = statementsOf(settings)
  const runner = runnerFor(settings, clock)
  const spare = runnerFor({ ...settings, pool: undefined, poolSize: SPARE_CONNECTIONS }, clock)
  const urgently = <T>(work: (on: Runner) => Promise<T>): Promise<T> => unqueued(runner, spare, work)

  async function held(text: string, values?: Values): Promise<readonly LockState[]> {
    const rows = await runner.look(text, values)
    return rows.flatMap(([name, ...row]) => (name === undefined ? [] : [stateFrom(name, row)]))
  }

  async function inspect(name: string): Promise<LockState> {
    const [state = { name, held: false }] = await held(sql.look, [Buffer.from(name)])
    return state
  }

  /** The number that the statement returns with its echo; undefined when it changed no row. */
  async function changed(text: string, values: Values): Promise<bigint | undefined> {
    const echo = newEcho()
    return numberIn(await runner.ask(text, [echo, echo, ...values], wrote(echo)))
  }

  /** Frees the name. Resolves with whether the attempt held it until then. */
  async function free(name: string, attemptId: string): Promise<boolean> {
    return (await changed(sql.free, [Buffer.from(name), attemptId])) === 1n
  }

  /** Ends the hold of `attemptId` and keeps the name taken. Resolves with whether the attempt held it. */
  async function keep(name: string, attemptId: string, keepMs: number): Promise<boolean> {
    const values = [keptAttemptId(attemptId), keepMs, Buffer.from(name), attemptId]
    return (await changed(sql.keep, values)) !== undefined
  }

  const adapter = {
    name: '@locks/mysql',
    capabilities: capabilities(given),
    inspect,

    async attempt(request) {
      const { name, attemptId, ttlMs, lockDelayMs } = request
      const echo = newEcho()
      const term = [attemptId, bytesOf(request), ttlMs, ttlMs + lockDelayMs]
      const values = [Buffer.from(name), echo, echo, ...term, echo, echo, echo, echo, echo, echo]
      const fence = numberIn(await runner.ask(sql.take, values, surelyWrote(echo)))
      if (fence !== undefined && fence > 0n) return { name, attemptId, fence, ttlMs }
      // It was taken a moment ago; by now it may be free.
      const { holder, remainingMs = 0 } = await inspect(name)
      return { busy: true, retryInMs: Math.max(1, Math.ceil(remainingMs)), ...(holder && { holder }) }
    },

    async withdraw({ name, attemptId }) {
      await free(name, attemptId)
    },

    renew: renewer(
      settings,
      {
        look: (...call) => urgently((on) => on.look(...call)),
        askOnce: (...call) => urgently((on) => on.askOnce(...call)),
      },
      clock,
    ),

    async release({ name, attemptId }, keepMs = 0) {
      const released = keepMs > 0 ? await keep(name, attemptId, keepMs) : await free(name, attemptId)
      return released ? 'released' : 'not-held'
    },

    async adopt(from, request) {
      const { name, attemptId, ttlMs, lockDelayMs } = request
      // The text of a lease comes from outside.
      if (!isAttemptId(from.attemptId) || from.fence < 1n || from.fence > MAX_FENCE) return 'lost'
      const next = [bytesOf(request), attemptId, ttlMs, ttlMs + lockDelayMs]
      const about = [Buffer.from(name), String(from.fence), from.attemptId, attemptId]
      const fence = await changed(sql.adopt, [...next, ...about])
      return fence === undefined ? 'lost' : { name, attemptId, fence, ttlMs }
    },

    list: (limit) => held(sql.list + String(limit)),

    async break(name, { fence }) {
      if (fence === undefined) return 'not-held'
      const broken = await changed(sql.break, [Buffer.from(name), String(fence)])
      return broken === undefined ? 'not-held' : 'broken'
    },

    diagnose: () => diagnose(settings, runner, clock),
    prune: (...call) => urgently((on) => pruneCounters(on, settings, 'unique-key', ...call)),

    async close() {
      await Promise.all([runner.close(), spare.close()])
    },
  } satisfies Adapter<UniqueKeyCapabilities>
  const record = strategyRecord(settings, runner)
  const creation = tableCreation(settings)
  return tableAdapter(adapter, { ...settings, strategy: 'unique-key', record, creation }, clock)
}

/**
 * Statements that decide an outcome return an echo, see `echo.ts`: in the insert id where they write, in the first
 * column where they read. `take` needs the echo twice after the name and six times at the end; others begin with it.
 */
function statementsOf(tables: Tables) {
  const { locks, pruned } = namesOf(tables)
  const state = `name, fence, holder, ${epochMs('since')}, TIMESTAMPDIFF(MICROSECOND, ${now}, blocked_until) / 1000`
  const lastPruned = `SELECT ${onPrimary('p.fence', 'p.id')} FROM ${pruned} p WHERE p.id = 1 LOCK IN SHARE MODE`
  const taken = `attempt IS NOT NULL AND blocked_until > ${now}`
  const nothing = onPrimary('0', 'name')
  const freed = 'attempt = NULL, holder = NULL, expires_at = NULL, blocked_until = NULL'
  return {
    /*
     * A grant in one statement: for a name that is new, free or expired (verdict 2), or held by this attempt (1). A
     * hold of this attempt that is over was never answered, so its lock-delay blocks only others (2).
     * Assignments take effect from left to right, so the verdict comes first; under a mode where they do not, the NULL
     * refuses the whole statement. The pruned fence is read under a lock, so that no pruning happens in between.
     */
    take: `INSERT INTO ${locks} (name, fence, verdict, attempt, holder, since, expires_at, blocked_until)
VALUES (?, ${echoing(`IF(FIND_IN_SET('SIMULTANEOUS_ASSIGNMENT', @@sql_mode) > 0, NULL,
  (${lastPruned}) + 1)`)},
  2, ?, ?, ${now}, ${after('?')}, ${after('?')})
ON DUPLICATE KEY UPDATE
  verdict = CASE WHEN attempt IS NULL OR blocked_until <= ${now} THEN 2
    WHEN attempt <> VALUES(attempt) THEN 0 WHEN expires_at > ${now} THEN 1 ELSE 2 END,
  fence = CASE verdict WHEN 2 THEN ${echoing('fence + 1')} WHEN 1 THEN ${echoing('fence')}
    ELSE fence + ${echoing('0')} END,
  since = IF(verdict = 2, VALUES(since), since),
  holder = IF(verdict = 0, holder, VALUES(holder)),
  expires_at = CASE verdict WHEN 2 THEN VALUES(expires_at)
    WHEN 1 THEN GREATEST(expires_at, VALUES(expires_at)) ELSE expires_at END,
  blocked_until = CASE verdict WHEN 2 THEN VALUES(blocked_until)
    WHEN 1 THEN GREATEST(blocked_until, VALUES(blocked_until)) ELSE blocked_until END,
  attempt = IF(verdict = 0, attempt, VALUES(attempt))`,
    look: `SELECT ?, ${state} FROM ${once} LEFT JOIN ${locks} ON name = ? AND ${taken}`,
    list: `SELECT ?, ${state} FROM ${once} LEFT JOIN ${locks} ON ${taken} LIMIT `,
    // The echo carries whether it had not expired; evaluated first, since assignments go from left to right.
    free: `UPDATE ${locks} SET fence = fence + ${echoing(onPrimary(`(blocked_until > ${now})`, 'name'))} * 0, ${freed}
WHERE name = ? AND attempt = ?`,
    keep: `UPDATE ${locks} SET fence = fence + ${echoing(nothing)}, attempt = ?, expires_at = ${now},
  blocked_until = ${after('?')} WHERE name = ? AND attempt = ? AND blocked_until > ${now}`,
    break: `UPDATE ${locks} SET fence = fence + ${echoing(nothing)}, ${freed}
WHERE name = ? AND fence = ? AND ${taken}`,
    adopt: `UPDATE ${locks} SET fence = ${echoing(onPrimary('fence', 'name'))}, holder = ?, attempt = ?,
  ${later('expires_at', after('?'))}, ${later('blocked_until', after('?'))}
WHERE name = ? AND fence = ? AND attempt IN (?, ?) AND expires_at > ${now}`,
  }
}
