import { writeHolder } from '@locks/core/adapter'
import { hostname } from 'node:os'
import { lockOf } from './advisory-sql.ts'
import { nameKeyOf, transactionsKeyOf } from './name-key.ts'
import type { Tables } from './options.ts'
import { durable, namesOf, nextFence } from './sql.ts'
import { strategyOf } from './strategy.ts'

type Asking = (nonce: string) => string

/**
 * The statements of one name, without parameters: what stands in them is a number, or text in hexadecimal. Each reply
 * is one text that begins with the nonce and the number of the transaction.
 */
export interface TransactionSql {
  /**
   * Tries to lock the name: isolation level, whether it may write, whether the name is locked now, strategy of the
   * tables, statement_timeout. Where no strategy is recorded it locks a key of the tables instead, so that none but
   * `row` is recorded before the transaction ends.
   */
  readonly take: Asking
  /** The same once that key is locked, and with a new snapshot: it sees a strategy that was recorded before. */
  readonly takeLocked: Asking
  /** The same without reading a table, and without locking anything. */
  readonly look: Asking
  /** Waits for the name. A time-out is no error, which would fail the transaction. */
  readonly wait: (waitMs: number) => string
  /** Locks the name for strategy `advisory` too, or nothing at all. Waits if asked to. Leaves the nonce behind. */
  readonly lockBoth: (waitMs: number, nonce: string) => string
  /** The nonce that the last one left. */
  readonly lockedBoth: Asking
  /** Sets statement_timeout for the rest of the transaction. */
  readonly limit: (timeout: string) => string
  readonly same: Asking
  /** The next fence, from the counter, if there is one and this is still that transaction. */
  readonly mint: (nonce: string, transaction: string) => string
  /** The same, where there is no counter yet. */
  readonly mintFirst: (nonce: string, transaction: string) => string
}

const holder = writeHolder({ owner: 'transaction', metadata: { host: hostname(), pid: process.pid } })
const hex = (text: string): string => Buffer.from(text).toString('hex')
const textOf = (text: string): string => `convert_from(decode('${hex(text)}', 'hex'), 'UTF8')`
const current = 'txid_current_if_assigned()'

export function transactionSql(tables: Tables, name: string, key: Buffer): TransactionSql {
  const to = namesOf(tables)
  const lock = `CAST('${nameKeyOf(tables, name)}' AS bigint)`
  const bytes = `decode('${key.toString('hex')}', 'hex')`
  const reply = (...words: readonly string[]): string => `SELECT concat_ws(' ', ${words.join(', ')}) AS reply`
  const level = "current_setting('transaction_isolation')"
  const canLock = `${level} IN ('read committed', 'read uncommitted')`
  const isReadOnly = "current_setting('transaction_read_only') = 'on'"
  const take =
    (got: string, strategy = 'NULL'): Asking =>
    (nonce) =>
      reply(
        `'${nonce}'`,
        'txid_current()',
        `replace(${level}, ' ', '-')`,
        isReadOnly,
        `CASE WHEN NOT ${canLock} OR ${isReadOnly} THEN false ELSE ${got} END`,
        `coalesce(${strategy}, '-')`,
        "current_setting('statement_timeout')",
      )
  const recorded = strategyOf(tables)
  const tryLock = (when: string): string =>
    `CASE WHEN ${when} THEN pg_try_advisory_xact_lock(${lock}) ELSE false END`
  const waitFor = (locking: string): string => `DO $locks$
DECLARE
  v_before text := current_setting('lock_timeout');
  v_since timestamptz := clock_timestamp();
BEGIN
  ${locking}
  PERFORM set_config('lock_timeout', v_before, true);
EXCEPTION WHEN lock_not_available THEN
  NULL;
END $locks$`
  const locking = (lockKey: string, waitMs: number): string =>
    `PERFORM set_config('lock_timeout',
    greatest(1, ${waitMs} - extract(epoch FROM clock_timestamp() - v_since) * 1000)::bigint::text, true);
  PERFORM pg_advisory_xact_lock(${lockKey});`
  const trying = (lockKey: string): string =>
    `IF NOT pg_try_advisory_xact_lock(${lockKey}) THEN RAISE lock_not_available; END IF;`
  const columns = (nonce: string): string =>
    `'${nonce}', ${textOf(holder)}, clock_timestamp(), pg_backend_pid()`
  const raised = (nonce: string, last: string): string =>
    `UPDATE ${last} SET (fence, attempt, holder, since, pid, key) = (${nextFence('h.fence')}, ${columns(nonce)}, NULL)`
  const minted = (nonce: string, write: string): string =>
    `WITH minted AS (${write} RETURNING h.fence, ${durable})
${reply(`'${nonce}'`, current, 'minted.fence')} FROM (SELECT 1) AS once LEFT JOIN minted ON true`
  return {
    take: take(
      `CASE WHEN ${recorded} IS NULL THEN pg_advisory_xact_lock_shared(${transactionsKeyOf(tables)}) IS NULL
  ELSE ${tryLock(`${recorded} = 'row'`)} END`,
      recorded,
    ),
    takeLocked: take(tryLock(`coalesce(${recorded}, 'row') = 'row'`), recorded),
    look: take('false'),
    wait: (waitMs) => waitFor(locking(lock, waitMs)),
    lockBoth: (waitMs, nonce) =>
      waitFor(
        [lock, lockOf(tables, name)]
          .map((lockKey) => (waitMs === 0 ? trying(lockKey) : locking(lockKey, waitMs)))
          .concat(`PERFORM set_config('locks.locked', '${nonce}', true);`)
          .join('\n  '),
      ),
    lockedBoth: (nonce) => reply(`'${nonce}'`, current, "current_setting('locks.locked', true)"),
    limit: (timeout) => `SELECT set_config('statement_timeout', ${textOf(timeout)}, true)`,
    same: (nonce) => reply(`'${nonce}'`, current),
    mint: (nonce, transaction) =>
      minted(
        nonce,
        `${raised(nonce, `${to.holders} AS h`)} WHERE h.name = ${bytes} AND ${current} = ${transaction}`,
      ),
    mintFirst: (nonce, transaction) =>
      minted(
        nonce,
        `INSERT INTO ${to.holders} AS h (name, fence, attempt, holder, since, pid)
SELECT ${bytes}, ${nextFence(`coalesce((SELECT fence FROM ${to.holders} WHERE name = ''), 0)`)}, ${columns(nonce)}
WHERE ${current} = ${transaction}
ON CONFLICT (name) DO ${raised(nonce, '')}`,
      ),
  }
}
