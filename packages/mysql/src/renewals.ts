import type { Adapter, Clock, Renewal, RenewOutcome } from '@locks/core/adapter'
import { renewLocked } from '@locks/sql'
import { newEcho, numberIn, wrote } from './echo.ts'
import { errors } from './errors.ts'
import type { Tables } from './options.ts'
import type { Runner } from './runner.ts'
import { namesOf } from './schema.ts'
import { after, echoing, later, now, onItsOwn, onPrimary } from './sql.ts'

/** Few enough that a batch holds its row locks only briefly. */
const BATCH = 500

type Outcomes = Map<Renewal, RenewOutcome>

/** Renews in batches. A row locked by another session delays only its own renewal. */
export function renewer(
  tables: Tables,
  runner: Pick<Runner, 'look' | 'askOnce'>,
  clock: Clock,
): Adapter['renew'] {
  const sql = statementsOf(tables)

  async function renewBatch(renewals: readonly Renewal[]): Promise<Outcomes> {
    const rows = await runner.look(sql.lockable, [textOf(renewals)])
    // Locked rows are missing.
    const isMine = new Map(rows.map(([attempt = '', mine]) => [attempt, mine]))
    const those = (mine: string): readonly Renewal[] =>
      renewals.filter(({ grant }) => isMine.get(hex(grant.attemptId)) === mine)
    const outcomes: Outcomes = new Map()
    for (const renewal of those('0')) outcomes.set(renewal, 'lost')
    for (const renewal of await renewed(those('1'))) outcomes.set(renewal, 'renewed')
    const late = await renewLocked(
      renewals.filter((renewal) => !outcomes.has(renewal)),
      clock,
      renewOne,
    )
    return new Map([...outcomes, ...late])
  }

  /** Renews all in one statement. Resolves with those that still held their row. */
  async function renewed(renewals: readonly Renewal[]): Promise<readonly Renewal[]> {
    if (renewals.length === 0) return []
    const echo = newEcho()
    const batch = textOf(renewals)
    const result = await runner
      .askOnce(sql.renew, [batch, echo, echo], wrote(echo))
      .catch((error: unknown) => {
        // A row may have been locked since, so that the server rolled all of it back.
        if (errors.isTransient(error)) return undefined
        throw error
      })
    if (result === undefined || numberIn(result) === undefined) return []
    if (result.affected === renewals.length) return renewals
    // A row that did not change has ended since, or already ended later.
    const held = new Set((await runner.look(sql.renewed, [batch])).map(([attempt]) => attempt))
    return renewals.filter(({ grant }) => held.has(hex(grant.attemptId)))
  }

  async function renewOne(renewal: Renewal): Promise<RenewOutcome> {
    const echo = newEcho()
    const result = await runner.askOnce(sql.renew, [textOf([renewal]), echo, echo], wrote(echo))
    return numberIn(result) === undefined ? 'lost' : 'renewed'
  }

  return async (renewals) => {
    const batches = inBatches(renewals)
    const settled = await Promise.allSettled(batches.map(renewBatch))
    const failed = settled.find((batch) => batch.status === 'rejected')
    if (failed !== undefined && batches.length === 1) throw errors.toLockError(failed.reason)
    const outcomes = settled.map((batch) => (batch.status === 'fulfilled' ? batch.value : undefined))
    return renewals.map((renewal, n) => outcomes[Math.floor(n / BATCH)]?.get(renewal) ?? 'unknown')
  }
}

function inBatches<T>(all: readonly T[]): readonly (readonly T[])[] {
  const count = Math.ceil(all.length / BATCH)
  return Array.from({ length: count }, (_, n) => all.slice(n * BATCH, (n + 1) * BATCH))
}

function hex(text: string): string {
  return Buffer.from(text).toString('hex')
}

/** In hex: names are bytes, which JSON cannot carry. Sorted, so that two batches do not deadlock. */
function textOf(renewals: readonly Renewal[]): string {
  const rows = renewals.map(
    ({ grant, ttlMs, lockDelayMs }) => [hex(grant.name), hex(grant.attemptId), ttlMs, lockDelayMs] as const,
  )
  return JSON.stringify(rows.toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function statementsOf(tables: Tables) {
  const batch = `JSON_TABLE(?, '$[*]' COLUMNS (
  name VARCHAR(2048) PATH '$[0]', attempt VARCHAR(2048) PATH '$[1]', ttl BIGINT PATH '$[2]', delay BIGINT PATH '$[3]'
)) r`
  // By the key, in the order of the batch: a scan would lock other rows on its way.
  const rows = `${batch} STRAIGHT_JOIN ${namesOf(tables).locks} l FORCE INDEX (PRIMARY) ON l.name = UNHEX(r.name)`
  const mine = `l.attempt = UNHEX(r.attempt) AND l.expires_at > ${now}`
  // An explicit limit: that of the session may be lower.
  const all = 'LIMIT 1000000'
  return {
    // Skips rows locked by another session.
    lockable: `SELECT ?, r.attempt, COALESCE(${mine}, 0) FROM ${rows} ${all} FOR UPDATE SKIP LOCKED`,
    renew: `${onItsOwn('UPDATE')} ${rows} AND ${mine} SET l.fence = l.fence + ${echoing(onPrimary('0', 'l.name'))},
  ${later('l.expires_at', after('r.ttl'))}, ${later('l.blocked_until', after('(r.ttl + r.delay)'))}`,
    renewed: `SELECT ?, r.attempt FROM ${rows} AND ${mine} ${all}`,
  }
}
