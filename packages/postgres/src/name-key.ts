import { createHash } from 'node:crypto'
import type { Tables } from './options.ts'

const SIGN = -(2n ** 63n)

/**
 * The advisory lock of a name. A transaction that holds the name has it alone; holders of strategy `row` share it, and
 * exclude each other by their row. Negative, so that it is never the key of a hold.
 */
export function nameKeyOf({ schema, table }: Tables, name: string): string {
  const digest = createHash('sha256').update(`${schema}.${table}\0${name}`).digest()
  return String(digest.readBigInt64BE() | SIGN)
}

/*
 * Two ways to use a set of tables leave no record of the strategy behind. Each shares an advisory lock instead, which a
 * client has alone while it records a strategy that does not go with it.
 */

/** Shared by transactions that hold names while no strategy is recorded. Goes with `row`. No name is empty. */
export function transactionsKeyOf(tables: Tables): string {
  return `CAST('${nameKeyOf(tables, '')}' AS bigint)`
}

/** Shared by each connection of a client without fences. Goes with `advisory`. */
export function unfencedKeyOf({ schema, table }: Tables): string {
  const digest = createHash('sha256').update(`@locks/postgres unfenced\0${schema}.${table}`).digest()
  return `CAST('${digest.readBigInt64BE() | SIGN}' AS bigint)`
}

/** Whether any session shares that advisory lock. */
export function isShared(key: string): string {
  return `EXISTS (SELECT FROM pg_locks
  WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND mode = 'ShareLock'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND (classid::bigint << 32) | objid::bigint = ${key})`
}
