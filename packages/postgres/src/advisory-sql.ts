import { createHash } from 'node:crypto'
import type { Statement } from './connection.ts'
import type { Tables } from './options.ts'
import { onPrimary, statement } from './sql.ts'

/**
 * The number that stands for a name. Advisory locks belong to a database, and two tables of it do not share them. Names
 * whose 64 bits are equal exclude each other: about one chance in 37 million for a million names.
 */
export function lockOf({ schema, table }: Tables, name: string): string {
  const digest = createHash('sha256').update(`@locks/postgres advisory\0${schema}.${table}\0${name}`).digest()
  return String(digest.readBigInt64BE())
}

/** Sets a limit of the session, where the server has that setting. */
const limit = (name: string, value: string): string =>
  `CASE WHEN current_setting('${name}', true) IS NOT NULL THEN set_config('${name}', ${value}, false) END`

/** PostgreSQL 14 and newer end a session that is idle for longer. */
const allow = (silenceMs: string): string => limit('idle_session_timeout', silenceMs)

/** A pooler that was not noticed may give the statement to another session, which would keep the lock. */
const isOurs = (pid: string): string => `pg_backend_pid() = ${pid}`

/**
 * Each takes a nonce as its last value and returns it as its first column. The second is the backend that answers.
 * Locks belong to the session, not to a transaction: an error does not undo them.
 */
export const advisorySql: Readonly<
  Record<'tryLock' | 'prepareWait' | 'lock' | 'probe' | 'unlock', Statement>
> = {
  // A standby would lock the name beside its primary. The name first, then the key of the hold.
  tryLock: statement(`SELECT $5::text, pg_backend_pid(), name.locked,
  CASE WHEN name.locked THEN pg_try_advisory_lock($2) END, ${allow('$3')}
FROM (SELECT) AS once LEFT JOIN (
  SELECT pg_try_advisory_lock($1) AS locked WHERE ${isOurs('$4')} AND ${onPrimary}
) AS name ON true`),
  // No limit of the server ends a wait.
  prepareWait: statement(`SELECT $2::text, pg_backend_pid(), ${allow('$1')},
  ${['lock_timeout', 'statement_timeout', 'transaction_timeout'].map((name) => limit(name, "'0'")).join(', ')}
WHERE ${onPrimary}`),
  lock: statement(`SELECT $4::text, pg_backend_pid(), name.locked,
  CASE WHEN name.locked THEN pg_try_advisory_lock($2) END
FROM (SELECT) AS once LEFT JOIN (
  SELECT pg_advisory_lock($1) IS NOT NULL AS locked WHERE ${isOurs('$3')}
) AS name ON true`),
  probe: statement(`SELECT $2::text, pg_backend_pid(), ${allow('$1')}`),
  // Unlock the hold's key first, so the hold never looks alive after the name is free.
  unlock: statement(`SELECT $4::text, pg_backend_pid(),
  CASE WHEN ${isOurs('$3')} THEN pg_advisory_unlock($2) END,
  CASE WHEN ${isOurs('$3')} THEN pg_advisory_unlock($1) END`),
}
