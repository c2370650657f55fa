import { createHash } from 'node:crypto'
import type { Statement } from './connection.ts'
import { sqlTagOf } from './messages.ts'
import type { Strategy } from './option-table.ts'
import type { Place } from './options.ts'

/** Quoted names of the tables and functions of one place. Schema and table are validated; quoting keeps their case. */
export type Names = Readonly<
  Record<
    | 'locks'
    | 'waiters'
    | 'attempt'
    | 'first'
    | 'passOn'
    | 'release'
    | 'withdraw'
    | 'renew'
    | 'renewLocked'
    | 'adopt'
    | 'break'
    | 'inspect'
    | 'waiting'
    | 'prune'
    | 'pruneWaiters'
    | 'strategy'
    | 'rows'
    | 'holders'
    | 'mint'
    | 'pruneRows'
    | 'resources',
    string
  >
>

export function namesOf({ schema, table }: Place): Names {
  const named = (suffix: string): string => `"${schema}"."${table}${suffix}"`
  return {
    locks: named(''),
    waiters: named('_waiters'),
    attempt: named('_attempt'),
    first: named('_first'),
    passOn: named('_pass_on'),
    release: named('_release'),
    withdraw: named('_withdraw'),
    renew: named('_renew'),
    renewLocked: named('_renew_locked'),
    adopt: named('_adopt'),
    break: named('_break'),
    inspect: named('_inspect'),
    waiting: named('_waiting'),
    prune: named('_prune'),
    pruneWaiters: named('_prune_waiters'),
    strategy: named('_strategy'),
    rows: named('_rows'),
    holders: named('_holders'),
    mint: named('_mint'),
    pruneRows: named('_prune_rows'),
    resources: `"${schema}".fenced_resources`,
  }
}

/** Not prepared: so short that preparing it would cost more. */
function plain(text: string): Statement {
  return { name: undefined, text }
}

/** The same text has the same name, so that several clients can share a connection. */
function statement(text: string): Statement {
  return { name: `locks_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`, text }
}

/** A finding counts at most this many rows. */
const MOST_LEFTOVERS = 1_000_000

export type FactStatements = Readonly<
  Record<'settings' | 'server' | 'missing' | 'forbidden' | 'leftovers', Statement>
>

/** What `diagnose` asks. Names are looked up as text, so that a missing one is an answer and not an error. */
export function factStatements(place: Place, strategy: Strategy): FactStatements {
  const to = namesOf(place)
  const tables = [...(strategy === 'row' ? [to.rows, to.holders] : [to.locks, to.waiters]), to.strategy]
  const functions =
    strategy === 'row'
      ? [`${to.mint}(bytea, text, text, bigint, int)`, `${to.pruneRows}(bigint, int, bytea[])`]
      : uniqueKeyFunctions(place)
  const [kept, isFree] =
    strategy === 'row' ? [to.holders, 'true'] : [to.locks, '(attempt IS NULL OR blocked_until < now())']
  const all = (names: readonly string[]): string =>
    `unnest(ARRAY[${names.map((name) => `'${name}'`).join()}])`
  return {
    settings: statement('SELECT name, setting FROM pg_settings WHERE name = ANY($1::text[])'),
    server: statement(
      "SELECT pg_is_in_recovery(), (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')",
    ),
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

/** The names that a statement is about; null for all. */
export function bytesOf(names: readonly string[] | undefined): Buffer[] | null {
  return names?.map((name) => Buffer.from(name)) ?? null
}

/** With their parameters: functions of an earlier version do not count. */
function uniqueKeyFunctions(place: Place): readonly string[] {
  const to = namesOf(place)
  return [
    `${to.attempt}(bytea, text, text, int, int, int, bigint, text, boolean)`,
    `${to.release}(bytea, text, boolean)`,
    `${to.withdraw}(bytea, text, boolean)`,
    `${to.renewLocked}(bytea, text, int, int, int)`,
    `${to.break}(bytea, bigint, boolean)`,
    `${to.prune}(bigint, int, bytea[])`,
    `${to.waiting}(bytea)`,
  ]
}

/**
 * Each takes a nonce as its last value and returns it as the first column of every row, so that the reply to another
 * statement is recognised. All but `take` always return a row, so that a reply without one is wrong.
 */
export type UniqueKeyStatements = Readonly<
  Record<
    | 'take'
    | 'give'
    | 'keep'
    | 'attempt'
    | 'release'
    | 'withdraw'
    | 'renew'
    | 'renewLocked'
    | 'adopt'
    | 'inspect'
    | 'list'
    | 'break'
    | 'prune'
    | 'pruneWaiters',
    Statement
  >
>

/** The keys of living connections as numbers: `pg_locks` shows each half in a column of its own. */
export const living = `living AS MATERIALIZED (
  SELECT (classid::bigint << 32) | objid::bigint AS key, pid FROM pg_locks
  WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND mode = 'ExclusiveLock'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)`

/**
 * Fails on a standby: holds and waiters are advisory locks of the primary, so a standby would consider all of them
 * gone.
 */
const onPrimary = '(SELECT pg_current_wal_lsn()) IS NOT NULL'

/** Statements that grant a fence are flushed whatever the default is: a crash must not reset a fence. */
const durable = `CASE WHEN current_setting('synchronous_commit') = 'off'
  THEN set_config('synchronous_commit', 'on', true) END`

export const epochMs = (what: string): string => `(extract(epoch FROM ${what}) * 1000)::float8`

export function uniqueKeyStatements(place: Place): UniqueKeyStatements {
  const to = namesOf(place)
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
      `SELECT $2::text, seen.*, ${to.waiting}($1) FROM ${to.inspect}($1) AS seen WHERE ${onPrimary}`,
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

export type StrategyStatements = Readonly<Record<'read' | 'write', Statement>>

export function strategyStatements(place: Place): StrategyStatements {
  const { strategy } = namesOf(place)
  return {
    read: statement(`SELECT $1::text, strategy FROM ${strategy}`),
    write: statement(
      `INSERT INTO ${strategy} (id, strategy) VALUES (1, $1) ON CONFLICT DO NOTHING RETURNING ${durable}`,
    ),
  }
}

/** For the connection that receives hand-offs: it holds its key while it lives, so that other sessions can tell. */
export function listening(key: string): readonly Statement[] {
  return [plain(`LISTEN ${channelOf(key)}`), { name: undefined, text: 'SELECT pg_advisory_lock($1::bigint)' }]
}

function channelOf(key: string): string {
  if (!/^\d{1,19}$/.test(key)) throw new TypeError('a listener key is a number')
  return `"locks_${key}"`
}

export type RowStatements = Readonly<
  Record<
    | 'makeRow'
    | 'allow'
    | 'begin'
    | 'tryLock'
    | 'look'
    | 'prepareWait'
    | 'lock'
    | 'probe'
    | 'prove'
    | 'rollback'
    | 'mint'
    | 'mintFirst'
    | 'inspect'
    | 'terminate'
    | 'list'
    | 'holds'
    | 'break'
    | 'cancel'
    | 'isThere'
    | 'prune',
    Statement
  >
>

/**
 * The key of a hold is an advisory lock of the holding transaction: any connection can tell at any time, by trying to
 * lock the key, whether that transaction still lives.
 */
export function rowStatements(place: Place): RowStatements {
  const to = namesOf(place)
  const allowing = (local: string): string =>
    `set_config('idle_in_transaction_session_timeout', $1, ${local})`
  // Locking a row gives a transaction its number. While the number is the same, the row is locked.
  const transaction = 'txid_current_if_assigned()'
  const locking = (nonce: string, row: string): string =>
    `SELECT ${nonce}::text, got.locked, pg_backend_pid(), ${transaction} FROM (SELECT) AS once LEFT JOIN (
  SELECT pg_try_advisory_xact_lock($2) AS locked FROM (${row}) AS found
) AS got ON true`
  const lives = 'NOT pg_try_advisory_xact_lock_shared(h.key)'
  return {
    makeRow: statement(`INSERT INTO ${to.rows} (name) VALUES ($1) ON CONFLICT DO NOTHING`),
    // The server ends a holder that is silent for longer. Set for the connection: a rollback would undo it in the
    // transaction.
    allow: statement(`SELECT ${allowing('false')}`),
    begin: plain('BEGIN ISOLATION LEVEL READ COMMITTED'),
    tryLock: statement(locking('$3', `SELECT FROM ${to.rows} WHERE name = $1 FOR UPDATE SKIP LOCKED`)),
    look: statement(`SELECT $2::text, there.name IS NOT NULL, pg_backend_pid(), h.fence, h.holder, ${epochMs('h.since')}
FROM (VALUES ($1::bytea)) AS wanted (name)
LEFT JOIN ${to.rows} there ON there.name = wanted.name
LEFT JOIN ${to.holders} h ON h.name = wanted.name AND ${lives}`),
    prepareWait: statement(
      `SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)`,
    ),
    lock: statement(locking('$3', `SELECT FROM ${to.rows} WHERE name = $1 FOR UPDATE`)),
    probe: statement(`SELECT $2::text, ${transaction}, ${allowing('true')}`),
    prove: statement(`SELECT $1::text, ${transaction}`),
    rollback: plain('ROLLBACK'),
    mint: statement(`UPDATE ${to.holders} SET fence = fence + 1, attempt = $2, holder = $3, since = clock_timestamp(),
  key = $4, pid = $5 WHERE name = $1 AND NOT pg_try_advisory_xact_lock_shared($4)
RETURNING $6::text, fence, ${durable}`),
    mintFirst: statement(`SELECT $6::text, ${to.mint}($1, $2, $3, $4, $5)`),
    inspect: statement(`SELECT $2::text, h.attempt, h.fence, h.holder, ${epochMs('h.since')}
FROM (SELECT) AS once LEFT JOIN ${to.holders} h ON h.name = $1 AND ${lives} WHERE ${onPrimary}`),
    // Found by the key it holds now: another session may have the process number of the holder by now.
    terminate: statement(`WITH ${living} SELECT pg_terminate_backend(living.pid) FROM ${to.holders} h
JOIN living ON living.key = h.key WHERE h.name = $1 AND h.attempt = $2`),
    break:
      statement(`WITH ${living} SELECT $3::text, count(pg_terminate_backend(living.pid)) FROM ${to.holders} h
JOIN living ON living.key = h.key WHERE h.name = $1 AND h.fence = $2 AND ${onPrimary}`),
    holds: statement(`SELECT $3::text, EXISTS (
  SELECT FROM ${to.holders} h WHERE h.name = $1 AND h.fence = $2 AND ${lives}
)`),
    list: statement(`WITH ${living} SELECT $2::text, encode(h.name, 'hex'), h.fence, h.holder, ${epochMs('h.since')}
FROM (SELECT) AS once LEFT JOIN (${to.holders} h JOIN living ON living.key = h.key) ON true
WHERE ${onPrimary} LIMIT $1`),
    cancel: statement('SELECT pg_cancel_backend($1)'),
    prune: statement(`SELECT $4::text, ${to.pruneRows}($1, $2, $3)`),
    isThere: statement('SELECT $2::text, EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)'),
  }
}
