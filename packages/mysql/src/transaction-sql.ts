import { writeHolder } from '@locks/core/adapter'
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { Tables } from './options.ts'
import { namesOf } from './schema.ts'
import { clockUs, now, once } from './sql.ts'

type Asking = (nonce: string) => string

/**
 * The statements of one name, without parameters: what stands in them is a number, or text in hexadecimal. Until the
 * name is locked, none of them reads a table, which would take the snapshot of the transaction.
 */
export interface TransactionSql {
  /**
   * Which server it is, whether a transaction is open (MariaDB), its isolation level unless that was set for this
   * transaction alone, whether a time-out ends it, and how long it waits for rows.
   */
  readonly look: Asking
  readonly savepoint: string
  readonly releaseSavepoint: string
  /** How long MySQL waits for rows, in seconds. */
  readonly patience: (seconds: number) => string
  /**
   * Makes the row of the name or finds it, and locks it. MariaDB waits as long as the statement says. Shares the lock
   * that keeps other strategies from being recorded; does nothing where that row is missing.
   */
  readonly lock: (waitMs: number) => string
  /**
   * As this transaction sees them: strategy, last fence (-1 without a counter), the fence to exceed, the clock, whether
   * the tables have the row that guards the strategy, and whether the last holder was a client of `row`.
   */
  readonly counter: Asking
  /** Raises the counter if it is at `last`. */
  readonly mint: (fence: bigint, last: string, by: (attempt: string) => void) => string
  /** The attempt and the fence in the counter, as this transaction sees them. */
  readonly minted: Asking
  /** Remembers on the connection that this transaction has locked a name. */
  readonly mark: string
  /** Whether it had, before this call. */
  readonly isMarked: Asking
}

/** How many transactions the connection has begun or ended: no statement says which one is open. */
const transactions = `(SELECT SUM(VARIABLE_VALUE) FROM /*M! information_schema.SESSION_STATUS */
/*!80000 performance_schema.session_status */ WHERE VARIABLE_NAME IN ('Com_begin', 'Com_commit', 'Com_rollback'))`

const holder = Buffer.from(
  writeHolder({ owner: 'transaction', metadata: { host: hostname(), pid: process.pid } }),
).toString('hex')

export function transactionSql(tables: Tables, key: Buffer): TransactionSql {
  const to = namesOf(tables)
  const name = `X'${key.toString('hex')}'`
  const reply = (nonce: string, ...words: readonly string[]): string =>
    `SELECT CONVERT(CONCAT_WS(' ', '${nonce}', ${words.join(', ')}) USING utf8mb4) AS reply`
  const counter = `${once} LEFT JOIN ${to.holders} h ON h.name = ${name}`
  return {
    // MariaDB reads one kind of comment, MySQL the other. With autocommit off, the next statement begins a transaction.
    look: (nonce) =>
      reply(
        nonce,
        `/*M! 'mariadb', @@in_transaction OR NOT @@autocommit, @@tx_isolation, */
/*!80000 'mysql', 0, @@transaction_isolation, */ @@innodb_rollback_on_timeout, @@innodb_lock_wait_timeout`,
      ),
    savepoint: 'SAVEPOINT locks_in_transaction',
    releaseSavepoint: 'RELEASE SAVEPOINT locks_in_transaction',
    patience: (seconds) => `SET SESSION innodb_lock_wait_timeout = ${seconds}`,
    // The limit of the statement comes first: that of the rows may end the transaction.
    // Not a locking SELECT: of a missing row that locks the gap, in which others then cannot insert.
    lock: (waitMs) => `/*M! SET STATEMENT
  innodb_lock_wait_timeout = ${waitMs === 0 ? 0 : Math.ceil(waitMs / 1_000) + 1},
  max_statement_time = ${waitMs / 1_000} FOR */ INSERT INTO ${to.rows} (name)
SELECT ${name} FROM ${to.pruned} p WHERE p.id = 2 LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE name = VALUES(name)`,
    counter: (nonce) =>
      `${reply(
        nonce,
        "COALESCE(s.strategy, '-')",
        'COALESCE(h.fence, -1)',
        'COALESCE(h.fence, p.fence, 0)',
        clockUs,
        'g.id IS NOT NULL',
        "COALESCE(h.hold <> CONCAT('locks:', h.attempt), 0)",
      )} FROM ${counter} LEFT JOIN ${to.pruned} p ON p.id = 1 LEFT JOIN ${to.pruned} g ON g.id = 2
LEFT JOIN ${to.strategy} s ON s.id = 1`,
    mint(fence, last, by) {
      const attempt = randomBytes(12).toString('hex')
      by(attempt)
      const columns = ['attempt', 'holder', 'since', 'hold', 'fence']
      // The fence last: assignments happen from left to right.
      const raised = columns.map(
        (column) =>
          `${column} = IF(${to.holders}.fence = ${last}, VALUES(${column}), ${to.holders}.${column})`,
      )
      return `INSERT INTO ${to.holders} (name, ${columns.join(', ')})
VALUES (${name}, '${attempt}', X'${holder}', ${now}, 'locks:${attempt}', ${fence})
ON DUPLICATE KEY UPDATE ${raised.join(',\n  ')}`
    },
    minted: (nonce) => `${reply(nonce, "COALESCE(h.attempt, '-')", 'COALESCE(h.fence, -1)')} FROM ${counter}`,
    mark: `SET @locks_in_transaction = ${transactions}`,
    isMarked: (nonce) => reply(nonce, `COALESCE(@locks_in_transaction = ${transactions}, 0)`),
  }
}
