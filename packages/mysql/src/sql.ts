import { createHash } from 'node:crypto'
import type { Place } from './options.ts'
import { namesOf } from './schema.ts'

export const now = 'UTC_TIMESTAMP(6)'
const after = (ms: string): string => `${now} + INTERVAL ${ms} * 1000 MICROSECOND`
const epochMs = (column: string): string => `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ${column}) / 1000`

/**
 * A session that refuses updates without a key takes the batch for one, and one of a pool may wait long for a row
 * that a stranger has locked. MariaDB reads the first comment, MySQL the second.
 */
export const onItsOwn = (verb: string): string =>
  `/*M! SET STATEMENT sql_safe_updates = 0, innodb_lock_wait_timeout = 1 FOR */ ${verb} \
/*+ SET_VAR(sql_safe_updates = 0) SET_VAR(innodb_lock_wait_timeout = 1) */`

/** The echo of a statement, wherever it stands. As text it would make floating-point numbers of fences. */
const echo = 'CAST(? AS SIGNED)'
/** To join with: there is a row for the echo, whatever is found. */
const once = '(SELECT 1 AS one) o'
/** Sends the echo back with a number below 2^52, and has that number for its value. */
const echoing = (number: string): string => `(LAST_INSERT_ID(${number} + ${echo}) - ${echo})`

/**
 * Statements that decide an outcome echo a number of the call, see `echo.ts`: in the insert id where they write, in the
 * first column where they read. `take` has the echo after the name six times and at the end; others begin with it.
 */
export interface UniqueKeyStatements {
  readonly take: string
  readonly look: string
  readonly list: string
  readonly free: string
  readonly keep: string
  readonly break: string
  readonly lockable: string
  readonly renew: string
  readonly renewed: string
  readonly adopt: string
}

export function uniqueKeyStatements(place: Place): UniqueKeyStatements {
  const { locks, pruned } = namesOf(place)
  const later = (column: string, value: string): string => `${column} = GREATEST(${column}, ${value})`
  const batch = `JSON_TABLE(?, '$[*]' COLUMNS (
  name VARCHAR(2048) PATH '$[0]', attempt VARCHAR(2048) PATH '$[1]', ttl BIGINT PATH '$[2]', delay BIGINT PATH '$[3]'
)) r`
  // In the order of the batch, by the key: a scan would lock the rows of others on its way.
  const rows = `${batch} STRAIGHT_JOIN ${locks} l FORCE INDEX (PRIMARY) ON l.name = UNHEX(r.name)`
  const mine = `l.attempt = UNHEX(r.attempt) AND l.expires_at > ${now}`
  // A limit of its own: that of the session may be lower.
  const all = 'LIMIT 1000000'
  const state = `name, fence, holder, ${epochMs('since')}, TIMESTAMPDIFF(MICROSECOND, ${now}, blocked_until) / 1000`
  const taken = `attempt IS NOT NULL AND blocked_until > ${now}`
  const freed = 'attempt = NULL, holder = NULL, expires_at = NULL, blocked_until = NULL'
  return {
    /*
     * A grant in one statement: of a name that never was, is free or expired (2), or is this attempt's already (1).
     * Assignments take effect from left to right, so the verdict comes first; where they do not, the NULL refuses
     * the whole statement. The pruned fence is read under a lock, so that no pruning comes in between.
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
    // Whether it had not expired comes with the echo, and is looked at first: assignments go from left to right.
    free: `UPDATE ${locks} SET fence = fence + ${echoing(`(blocked_until > ${now})`)} * 0, ${freed}
WHERE name = ? AND attempt = ?`,
    keep: `UPDATE ${locks} SET fence = fence + ${echoing('0')}, attempt = ?, expires_at = ${now},
  blocked_until = ${after('?')} WHERE name = ? AND attempt = ? AND blocked_until > ${now}`,
    break: `UPDATE ${locks} SET fence = fence + ${echoing('0')}, ${freed} WHERE name = ? AND fence = ? AND ${taken}`,
    // Leaves out rows that another session has locked.
    lockable: `SELECT ?, r.attempt, COALESCE(${mine}, 0) FROM ${rows} ${all} FOR UPDATE SKIP LOCKED`,
    // An older message may arrive late: it must not bring the end of a hold forward.
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
  /** Whether the row is there, and who holds it. */
  readonly look: string
  /** How many named locks a hold has: its key, and where it has no row the lock itself. */
  readonly locks: number
  readonly mint: string
  /** Whether the server may be a replica, and who holds. */
  readonly inspect: string
  readonly list: string
  readonly isThere: string
}

/** A wait ends when it is granted, killed or withdrawn, never by the server's own limit. */
export const FOREVER_S = 1_000_000

/**
 * Whose connection has the key of a hold: NULL when none. The key is a named lock of the holding connection, so
 * this tells at any time, on any connection, whether that very hold still lives. Of NULL, MySQL makes an error.
 */
const ownerOf = (hold: string): string => `IS_USED_LOCK(COALESCE(${hold}, 'none'))`

export function sessionStatements(place: Place, strategy: 'row' | 'named'): SessionStatements {
  const to = namesOf(place)
  const holders = strategy === 'row' ? to.holders : to.named
  const lives = `${ownerOf('h.hold')} IS NOT NULL`
  const state = `h.name, h.fence, h.holder, ${epochMs('h.since')}, h.attempt, h.hold`
  // Other than 0 it may be a word.
  const found = `SELECT ?, @@GLOBAL.read_only, ${state} FROM ${once}`
  // A column in it, so that it is looked at once the row is locked, not before.
  const mine = `${ownerOf(`CONCAT(LEFT(${holders}.name, 0), VALUES(hold))`)} IS NOT NULL`
  const whenMine = (column: string): string =>
    `${column} = IF(${mine}, VALUES(${column}), ${holders}.${column})`
  const shared = {
    // Mints for a hold that lives and for no other: one that ended has a successor, whose fence may be minted already.
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
      insert: `INSERT INTO ${to.rows} (name) SELECT ? FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM ${to.rows} r WHERE r.name = ?)`,
    },
    look: look(`EXISTS (SELECT 1 FROM ${to.rows} r WHERE r.name = ?)`),
    locks: 1,
  }
}

/** Also the way to mark a hold as living. */
export const getKey = 'SELECT ?, GET_LOCK(?, 0)'
/** With how many there were. */
export const releaseLocks = 'SELECT ?, RELEASE_ALL_LOCKS()'
export const showLife = 'SELECT ?'
export const hasKey: string = `SELECT ?, ${ownerOf('?')} IS NOT NULL`

/**
 * Ends the connection that has the key of a hold at this very moment: by the time its number were sent back, the
 * connection might serve another hold. Takes no parameters, so the key must be one of ours.
 */
export function killHolder(key: string): string {
  if (!/^locks:[0-9a-f]{24}$/.test(key)) throw new TypeError('not the key of a hold')
  return `KILL CONNECTION IS_USED_LOCK('${key}')`
}

/**
 * GET_LOCK takes 64 characters on MySQL and knows neither databases nor tables nor case. Some servers do not tell
 * the case of tables either.
 */
export function lockNameOf({ schema, table }: Place, database: string, use: string, name: string): string {
  const space = `${use}\0${schema ?? database}.${table}`.toLowerCase()
  return createHash('sha256').update(`${space}\0${name}`).digest('hex').slice(0, 60)
}
