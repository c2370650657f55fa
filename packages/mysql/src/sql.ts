import { createHash } from 'node:crypto'
import type { Place } from './options.ts'
import { namesOf } from './schema.ts'

export const now = 'UTC_TIMESTAMP(6)'
const after = (ms: string): string => `${now} + INTERVAL ${ms} * 1000 MICROSECOND`
const epochMs = (column: string): string => `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ${column}) / 1000`

/**
 * Settings for one statement: sql_safe_updates would refuse the batch, and a connection of the program's pool may wait
 * long for a locked row. MariaDB reads the first comment, MySQL the second.
 */
export const onItsOwn = (verb: string): string =>
  `/*M! SET STATEMENT sql_safe_updates = 0, innodb_lock_wait_timeout = 1 FOR */ ${verb} \
/*+ SET_VAR(sql_safe_updates = 0) SET_VAR(innodb_lock_wait_timeout = 1) */`

/** The echo of a statement, as a number: a string would turn fences into floating-point numbers. */
const echo = 'CAST(? AS SIGNED)'
/** To join with, so that there is always a row for the echo. */
const once = '(SELECT 1 AS one) o'
/** Evaluates to `number`, which must be below 2^52, and returns it with the echo as the insert id. */
const echoing = (number: string): string => `(LAST_INSERT_ID(${number} + ${echo}) - ${echo})`

/**
 * Statements that decide an outcome return an echo, see `echo.ts`: in the insert id where they write, in the first
 * column where they read. `take` needs the echo twice after the name and six times at the end; others begin with it.
 */
export type UniqueKeyStatements = Readonly<
  Record<
    'take' | 'look' | 'list' | 'free' | 'keep' | 'break' | 'lockable' | 'renew' | 'renewed' | 'adopt',
    string
  >
>

export function uniqueKeyStatements(place: Place): UniqueKeyStatements {
  const { locks, pruned } = namesOf(place)
  const later = (column: string, value: string): string => `${column} = GREATEST(${column}, ${value})`
  const batch = `JSON_TABLE(?, '$[*]' COLUMNS (
  name VARCHAR(2048) PATH '$[0]', attempt VARCHAR(2048) PATH '$[1]', ttl BIGINT PATH '$[2]', delay BIGINT PATH '$[3]'
)) r`
  // By the key, in the order of the batch: a scan would lock other rows on its way.
  const rows = `${batch} STRAIGHT_JOIN ${locks} l FORCE INDEX (PRIMARY) ON l.name = UNHEX(r.name)`
  const mine = `l.attempt = UNHEX(r.attempt) AND l.expires_at > ${now}`
  // An explicit limit: that of the session may be lower.
  const all = 'LIMIT 1000000'
  const state = `name, fence, holder, ${epochMs('since')}, TIMESTAMPDIFF(MICROSECOND, ${now}, blocked_until) / 1000`
  const taken = `attempt IS NOT NULL AND blocked_until > ${now}`
  const freed = 'attempt = NULL, holder = NULL, expires_at = NULL, blocked_until = NULL'
  return {
    /*
     * A grant in one statement: for a name that is new, free or expired (verdict 2), or held by this attempt (1).
     * Assignments take effect from left to right, so the verdict comes first; under a mode where they do not, the NULL
     * refuses the whole statement. The pruned fence is read under a lock, so that no pruning happens in between.
     */
    take: `INSERT INTO ${locks} (name, fence, verdict, attempt, holder, since, expires_at, blocked_until)
VALUES (?, ${echoing(`IF(FIND_IN_SET('SIMULTANEOUS_ASSIGNMENT', @@sql_mode) > 0, NULL,
  (SELECT p.fence FROM ${pruned} p WHERE p.id = 1 LOCK IN SHARE MODE) + 1)`)},
  2, ?, ?, ${now}, ${after('?')}, ${after('?')})
ON DUPLICATE KEY UPDATE
  verdict = CASE WHEN attempt IS NULL OR blocked_until <= ${now} THEN 2
    WHEN attempt = VALUES(attempt) AND expires_at > ${now} THEN 1 ELSE 0 END,
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
    free: `UPDATE ${locks} SET fence = fence + ${echoing(`(blocked_until > ${now})`)} * 0, ${freed}
WHERE name = ? AND attempt = ?`,
    keep: `UPDATE ${locks} SET fence = fence + ${echoing('0')}, attempt = ?, expires_at = ${now},
  blocked_until = ${after('?')} WHERE name = ? AND attempt = ? AND blocked_until > ${now}`,
    break: `UPDATE ${locks} SET fence = fence + ${echoing('0')}, ${freed} WHERE name = ? AND fence = ? AND ${taken}`,
    // Skips rows locked by another session.
    lockable: `SELECT ?, r.attempt, COALESCE(${mine}, 0) FROM ${rows} ${all} FOR UPDATE SKIP LOCKED`,
    // An older renewal may arrive late: it must not shorten a hold.
    renew: `${onItsOwn('UPDATE')} ${rows} AND ${mine} SET l.fence = l.fence + ${echoing('0')},
  ${later('l.expires_at', after('r.ttl'))}, ${later('l.blocked_until', after('(r.ttl + r.delay)'))}`,
    renewed: `SELECT ?, r.attempt FROM ${rows} AND ${mine} ${all}`,
    adopt: `UPDATE ${locks} SET fence = ${echoing('fence')}, holder = ?, attempt = ?,
  ${later('expires_at', after('?'))}, ${later('blocked_until', after('?'))}
WHERE name = ? AND fence = ? AND attempt IN (?, ?) AND expires_at > ${now}`,
  }
}

export interface SessionStatements {
  readonly tryLock: string
  readonly lock: string
  readonly begin: string | undefined
  readonly makeRow: { readonly lock: string; readonly insert: string } | undefined
  /** Whether the row exists, and who holds it. */
  readonly look: string
  /** How many named locks a hold has: its key and, without a row, the lock itself. */
  readonly locks: number
  readonly mint: string
  /** Whether the server may be a replica, and who holds. */
  readonly inspect: string
  readonly list: string
  readonly isThere: string
}

/** A wait ends when it is granted, killed or withdrawn, not by a limit of the server. */
export const FOREVER_S = 1_000_000

/**
 * Which connection has the key of a hold; NULL when none does. The key is a named lock of the holding connection, so
 * any connection can tell at any time whether that hold still lives. MySQL raises an error for a NULL name.
 */
const ownerOf = (hold: string): string => `IS_USED_LOCK(COALESCE(${hold}, 'none'))`

export function sessionStatements(place: Place, strategy: 'row' | 'named'): SessionStatements {
  const to = namesOf(place)
  const holders = strategy === 'row' ? to.holders : to.named
  const lives = `${ownerOf('h.hold')} IS NOT NULL`
  const state = `h.name, h.fence, h.holder, ${epochMs('h.since')}, h.attempt, h.hold`
  // Only 0 means off: some servers show a word.
  const found = `SELECT ?, @@GLOBAL.read_only, ${state} FROM ${once}`
  // Contains a column, so that it is evaluated after the row is locked, not before.
  const mine = `${ownerOf(`CONCAT(LEFT(${holders}.name, 0), VALUES(hold))`)} IS NOT NULL`
  const whenMine = (column: string): string =>
    `${column} = IF(${mine}, VALUES(${column}), ${holders}.${column})`
  const shared = {
    // Only for a living hold: one that ended may have a successor, whose fence may be minted already.
    mint: `INSERT INTO ${holders} (name, fence, attempt, holder, since, hold)
SELECT ?, ${echoing('p.fence + 1')}, ?, ?, ${now}, ? FROM ${to.pruned} p
WHERE p.id = 1 AND ${ownerOf('?')} IS NOT NULL LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE
  fence = IF(${mine}, ${echoing(`${holders}.fence + 1`)}, ${holders}.fence + ${echoing('0')}),
  ${['attempt', 'holder', 'since', 'hold'].map(whenMine).join(',\n  ')}`,
    inspect: `${found} LEFT JOIN ${holders} h ON h.name = ? AND ${lives}`,
    list: `${found} LEFT JOIN ${holders} h ON ${lives} LIMIT `,
    isThere: 'SELECT ?, 1 FROM information_schema.PROCESSLIST WHERE ID = ?',
  }
  const look = (there: string): string =>
    `SELECT ?, ${there}, ${state} FROM ${once} LEFT JOIN ${holders} h ON h.name = ? AND ${lives}`
  if (strategy === 'named')
    return {
      ...shared,
      tryLock: 'SELECT ?, GET_LOCK(?, 0)',
      lock: `SELECT ?, GET_LOCK(?, ${FOREVER_S})`,
      begin: undefined,
      makeRow: undefined,
      look: look('? IS NOT NULL'),
      locks: 2,
    }
  const lock = `SELECT ?, GET_LOCK(?, 0) FROM ${to.rows} WHERE name = ? FOR UPDATE`
  return {
    ...shared,
    tryLock: `${lock} SKIP LOCKED`,
    lock,
    begin: 'START TRANSACTION',
    makeRow: {
      lock: 'SELECT ?, GET_LOCK(?, 5)',
      insert: `INSERT INTO ${to.rows} (name) SELECT ? FROM DUAL
WHERE NOT EXISTS (SELECT 1 FROM ${to.rows} r WHERE r.name = ?)`,
    },
    look: look(`EXISTS (SELECT 1 FROM ${to.rows} r WHERE r.name = ?)`),
    locks: 1,
  }
}

/** Marks a hold as living. */
export const getKey = 'SELECT ?, GET_LOCK(?, 0)'
/** Returns how many there were. */
export const releaseLocks = 'SELECT ?, RELEASE_ALL_LOCKS()'
export const showLife = 'SELECT ?'

/**
 * Ends the connection that has the key of a hold right now. With its number, asked for before, it might be a connection
 * that serves another hold by then. KILL takes no parameters, so the form of the key is checked.
 */
export function killHolder(key: string): string {
  if (!/^locks:[0-9a-f]{24}$/.test(key)) throw new TypeError('not the key of a hold')
  return `KILL CONNECTION IS_USED_LOCK('${key}')`
}

/**
 * Names of GET_LOCK have at most 64 characters on MySQL, ignore case, and are shared by all databases. On some servers
 * names of tables ignore case too.
 */
export function lockNameOf({ schema, table }: Place, database: string, use: string, name: string): string {
  const space = `${use}\0${schema ?? database}.${table}`.toLowerCase()
  return createHash('sha256').update(`${space}\0${name}`).digest('hex').slice(0, 60)
}
