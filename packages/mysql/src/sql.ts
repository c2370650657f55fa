import { createHash } from 'node:crypto'
import type { Place } from './options.ts'

/** Quoted names of everything that belongs to one place. Schema and table were validated; quoting keeps reserved words. */
export interface Names {
  readonly locks: string
  readonly rows: string
  readonly holders: string
  readonly named: string
  readonly resources: string
}

export function namesOf({ schema, table }: Place): Names {
  const within = schema === undefined ? '' : `\`${schema}\`.`
  const named = (suffix: string): string => `${within}\`${table}${suffix}\``
  return {
    locks: named(''),
    rows: named('_rows'),
    holders: named('_holders'),
    named: named('_named'),
    resources: `${within}fenced_resources`,
  }
}

/**
 * Tables of one place. Names and attempts are bytes: under a collation `LOCK`, `lock ` and `löck` may all be
 * equal to `lock`. The row of the empty name, which is no lock's, keeps the highest fence that was pruned.
 */
export function schemaOf(place: Place): readonly string[] {
  const to = namesOf(place)
  const holders = (table: string): string => `CREATE TABLE IF NOT EXISTS ${table} (
  name VARBINARY(1024) NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL,
  attempt VARBINARY(1024),
  holder MEDIUMBLOB,
  since DATETIME(6),
  hold VARBINARY(64),
  thread BIGINT
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`
  const floor = (table: string): string =>
    `INSERT INTO ${table} (name, fence) VALUES ('', 0) ON DUPLICATE KEY UPDATE fence = fence`
  return [
    ...(place.schema === undefined ? [] : [`CREATE DATABASE IF NOT EXISTS \`${place.schema}\``]),
    `CREATE TABLE IF NOT EXISTS ${to.locks} (
  name VARBINARY(1024) NOT NULL PRIMARY KEY,
  fence BIGINT NOT NULL,
  attempt VARBINARY(1024),
  holder MEDIUMBLOB,
  since DATETIME(6),
  expires_at DATETIME(6),
  blocked_until DATETIME(6)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`,
    floor(to.locks),
    `CREATE TABLE IF NOT EXISTS ${to.rows} (name VARBINARY(1024) NOT NULL PRIMARY KEY) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`,
    holders(to.holders),
    floor(to.holders),
    holders(to.named),
    floor(to.named),
    `CREATE TABLE IF NOT EXISTS ${to.resources} (
  resource VARBINARY(1024) NOT NULL PRIMARY KEY, fence BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`,
  ]
}

const now = 'UTC_TIMESTAMP(6)'
const after = (ms: string): string => `${now} + INTERVAL ${ms} * 1000 MICROSECOND`
const epochMs = (column: string): string => `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ${column}) / 1000`

export interface UniqueKeyStatements {
  readonly take: string
  readonly make: string
  readonly look: string
  readonly free: string
  readonly renew: string
  readonly renewed: string
  readonly adopt: string
}

export function uniqueKeyStatements(place: Place): UniqueKeyStatements {
  const { locks } = namesOf(place)
  const mine = `attempt <=> ? AND expires_at > ${now}`
  const batch = `JSON_TABLE(?, '$[*]' COLUMNS (
  name VARCHAR(2048) PATH '$[0]', attempt VARCHAR(2048) PATH '$[1]', ttl BIGINT PATH '$[2]', delay BIGINT PATH '$[3]'
)) r`
  const held = `l.name = UNHEX(r.name) AND l.attempt = UNHEX(r.attempt) AND l.expires_at > ${now}`
  return {
    // Assignments take effect from left to right, so what a condition reads is assigned last.
    take: `UPDATE ${locks} SET fence = LAST_INSERT_ID(IF(${mine}, fence, fence + 1)), since = IF(${mine}, since, ${now}),
  holder = ?, attempt = ?, expires_at = ${after('?')}, blocked_until = ${after('?')}
WHERE name = ? AND (attempt IS NULL OR blocked_until <= ${now} OR ${mine})`,
    // Reads the kept fence under a lock, so that no pruning comes in between.
    make: `INSERT INTO ${locks} (name, fence, attempt, holder, since, expires_at, blocked_until)
SELECT ?, LAST_INSERT_ID(fence + 1), ?, ?, ${now}, ${after('?')}, ${after('?')} FROM ${locks} WHERE name = '' LOCK IN SHARE MODE`,
    look: `SELECT attempt, fence, holder, ${epochMs('since')}, TIMESTAMPDIFF(MICROSECOND, ${now}, blocked_until) / 1000,
  blocked_until > ${now} FROM ${locks} WHERE name = ?`,
    free: `UPDATE ${locks} SET attempt = NULL, holder = NULL, expires_at = NULL, blocked_until = NULL
WHERE name = ? AND attempt = ?`,
    renew: `UPDATE ${locks} l JOIN ${batch} ON ${held}
SET l.expires_at = ${after('r.ttl')}, l.blocked_until = ${after('(r.ttl + r.delay)')}`,
    renewed: `SELECT l.attempt FROM ${locks} l JOIN ${batch} ON ${held}`,
    adopt: `UPDATE ${locks} SET fence = LAST_INSERT_ID(fence), holder = ?, attempt = ?, expires_at = ${after('?')},
  blocked_until = ${after('?')} WHERE name = ? AND attempt IN (?, ?) AND expires_at > ${now}`,
  }
}

export interface SessionStatements {
  readonly tryLock: string
  readonly lock: string
  readonly begin: string | undefined
  readonly makeRow: { readonly lock: string; readonly look: string; readonly insert: string } | undefined
  /** Whether the row is there, and who holds it. */
  readonly look: string
  readonly free: readonly string[]
  readonly mint: string
  readonly makeCounter: string
  readonly inspect: string
}

/** A wait ends when it is granted, killed or withdrawn, never by the server's own limit. */
export const FOREVER_S = 1_000_000

/**
 * The key of a hold is a named lock of the holding connection: whether it is in use tells at any time, on any
 * connection, whether that very hold still lives. It is read together with the row, hence after the row is locked.
 */
export function sessionStatements(place: Place, strategy: 'row' | 'named'): SessionStatements {
  const to = namesOf(place)
  const holders = strategy === 'row' ? to.holders : to.named
  const lives = 'IS_USED_LOCK(h.hold) IS NOT NULL'
  const minted = 'IS_USED_LOCK(CONCAT(LEFT(h.name, 0), ?)) IS NOT NULL'
  const holder = `h.attempt, h.fence, h.holder, ${epochMs('h.since')}, h.thread`
  const shared = {
    mint: `UPDATE ${holders} h SET h.fence = LAST_INSERT_ID(h.fence + 1), h.attempt = ?, h.holder = ?, h.since = ${now},
  h.hold = ?, h.thread = ? WHERE h.name = ? AND ${minted}`,
    makeCounter: `INSERT INTO ${holders} (name, fence, attempt, holder, since, hold, thread)
SELECT ?, LAST_INSERT_ID(h.fence + 1), ?, ?, ${now}, ?, ? FROM ${holders} h WHERE h.name = '' AND ${minted} LOCK IN SHARE MODE`,
    inspect: `SELECT ${holder} FROM ${holders} h WHERE h.name = ? AND ${lives}`,
  }
  if (strategy === 'named')
    return {
      ...shared,
      tryLock: 'SELECT GET_LOCK(?, 0)',
      lock: `SELECT GET_LOCK(?, ${FOREVER_S})`,
      begin: undefined,
      makeRow: undefined,
      look: `SELECT 1, ${holder} FROM (SELECT ? AS name) wanted LEFT JOIN ${holders} h ON h.name = wanted.name AND ${lives}`,
      free: ['SELECT RELEASE_ALL_LOCKS()'],
    }
  const lock = `SELECT GET_LOCK(?, 0) FROM ${to.rows} WHERE name = ? FOR UPDATE`
  return {
    ...shared,
    tryLock: `${lock} SKIP LOCKED`,
    lock,
    begin: 'START TRANSACTION',
    makeRow: {
      lock: 'SELECT GET_LOCK(?, 5)',
      look: `SELECT 1 FROM ${to.rows} WHERE name = ?`,
      insert: `INSERT INTO ${to.rows} (name) VALUES (?)`,
    },
    look: `SELECT r.name IS NOT NULL, ${holder} FROM (SELECT ? AS name) wanted
LEFT JOIN ${to.rows} r ON r.name = wanted.name LEFT JOIN ${holders} h ON h.name = wanted.name AND ${lives}`,
    free: ['ROLLBACK', 'SELECT RELEASE_ALL_LOCKS()'],
  }
}

/** Also the way to mark a hold as living. */
export const getKey = 'SELECT GET_LOCK(?, 0)'

/** GET_LOCK takes 64 characters on MySQL and knows neither databases nor tables nor case. */
export function lockNameOf({ schema, table }: Place, database: string, name: string): string {
  const space = `${schema ?? database}.${table}`
  return createHash('sha256').update(`${space}\0${name}`).digest('hex').slice(0, 60)
}
