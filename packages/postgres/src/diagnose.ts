import { findingsOf } from '@locks/core/adapter'
import type { Clock, Finding } from '@locks/core/adapter'
import { onOneConnection } from '@locks/sql'
import { errors, isRefusal } from './errors.ts'
import { checks } from './findings.ts'
import type { Facts } from './findings.ts'
import { lookForForeign } from './foreign.ts'
import { PostgresConnection } from './connection.ts'
import type { Row } from './connection.ts'
import type { Settings } from './options.ts'
import { poolingOf } from './pooler.ts'
import { epochMs, namesOf, statement } from './sql.ts'
import { readStrategy } from './strategy.ts'
import { ifRecorded } from './unfenced.ts'

/** Opens connections as the adapter does, so that it reports on the same settings. */
export async function diagnose(settings: Settings, clock: Clock): Promise<readonly Finding[]> {
  const sql = factStatements(settings)
  const { locks, strategy: table } = namesOf(settings)
  const open = (): Promise<PostgresConnection> => PostgresConnection.open(settings.config, { named: false })
  return onOneConnection(open, errors, async (connection) =>
    findingsOf(checks, await connection.promptly(() => factsOf(connection)), settings),
  )

  async function factsOf(on: PostgresConnection): Promise<Facts> {
    const values = new Map<string, string>()
    for (const [name, value] of await on.query(sql.settings)) values.set(name ?? '', value ?? '')
    const sentAt = clock.now()
    const [[inRecovery, connections, taken] = []] = await on.query(sql.server)
    const roundTripMs = clock.now() - sentAt
    const fenced = settings.strategy !== 'advisory' || settings.fencing
    const [foreign] = fenced ? await on.ask(lookForForeign(settings)) : []
    const missing = await on.query(sql.missing)
    const forbidden = await on.query(sql.forbidden)
    // Without fences there are no tables.
    const readable = fenced && !foreign && missing.length === 0 && forbidden.length === 0
    // Without fences there may be a record all the same, of another client.
    const look = (): Promise<readonly Row[]> => on.query(readStrategy(settings), [''])
    const [[, owner] = []] = foreign
      ? await look().catch(orNone)
      : fenced
        ? readable
          ? await look()
          : []
        : ((await ifRecorded(look)) ?? [])
    const [[kept, oldestMs] = []] = readable ? await on.query(sql.leftovers) : []
    return {
      settings: values,
      roundTripMs,
      pooling: await poolingOf(open),
      inRecovery: inRecovery === 't',
      connections: Number(connections),
      locks: Number(taken),
      foreign: foreign ?? undefined,
      missing: missing.map(([name]) => name ?? ''),
      forbidden: forbidden.map(([name]) => name ?? ''),
      record: fenced || owner ? { locks, table } : undefined,
      owner: owner ?? undefined,
      leftovers: readable ? { names: Number(kept), oldestMs: Number(oldestMs ?? 0) } : undefined,
    }
  }
}

/** The record may be the table of another program. */
function orNone(error: unknown): readonly Row[] {
  if (isRefusal(error)) return []
  throw error
}

/** A finding counts at most this many rows. */
const MOST_LEFTOVERS = 1_000_000

/** What `diagnose` asks. Names are looked up as text, so that a missing one is an answer and not an error. */
function factStatements(settings: Settings) {
  const to = namesOf(settings)
  // Functions with their parameters: those of an earlier version do not count.
  const mint = `${to.mint}(bytea, text, text, bigint, int)`
  const { tables, functions, kept, isFree } = {
    row: {
      tables: [to.rows, to.holders, to.strategy],
      functions: [mint, `${to.pruneRows}(bigint, int, bytea[])`],
      kept: to.holders,
      isFree: 'true',
    },
    advisory: {
      tables: settings.fencing ? [to.holders, to.strategy] : [],
      functions: settings.fencing ? [mint, `${to.pruneRows}(bigint, int, bytea[])`] : [],
      kept: to.holders,
      isFree: 'true',
    },
    'unique-key': {
      tables: [to.locks, to.waiters, to.strategy],
      functions: [
        `${to.attempt}(bytea, text, text, int, int, int, bigint, text, boolean)`,
        `${to.release}(bytea, text, boolean)`,
        `${to.withdraw}(bytea, text, boolean)`,
        `${to.renewLocked}(bytea, text, int, int, int)`,
        `${to.break}(bytea, bigint, boolean)`,
        `${to.prune}(bigint, int, bytea[])`,
        `${to.waiting}(bytea)`,
      ],
      kept: to.locks,
      isFree: '(attempt IS NULL OR blocked_until < now())',
    },
  }[settings.strategy]
  const all = (names: readonly string[]): string =>
    `unnest(ARRAY[${names.map((name) => `'${name}'`).join()}]::text[])`
  return {
    settings: statement('SELECT name, setting FROM pg_settings'),
    server: statement(`SELECT pg_is_in_recovery(),
  (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
  (SELECT count(*) FROM pg_locks WHERE NOT fastpath)`),
    missing: statement(`SELECT name FROM ${all(tables)} name WHERE to_regclass(name) IS NULL
UNION ALL SELECT name FROM ${all(functions)} name WHERE to_regprocedure(name) IS NULL`),
    forbidden: statement(`SELECT name FROM ${all(tables)} name
WHERE to_regclass(name) IS NOT NULL AND NOT (has_table_privilege(name, 'SELECT') AND has_table_privilege(name, 'INSERT')
  AND has_table_privilege(name, 'UPDATE') AND has_table_privilege(name, 'DELETE'))`),
    leftovers: statement(`SELECT count(*), ${epochMs('(now() - min(since))')} FROM (
  SELECT since FROM ${kept} WHERE name <> '' AND ${isFree} LIMIT ${MOST_LEFTOVERS}
) AS kept`),
  }
}
