import type { LockState } from '@locks/core/adapter'
import { quotedNames, stateFrom } from '@locks/sql'
import { createHash } from 'node:crypto'
import type { Row, Statement } from './connection.ts'
import type { Tables } from './options.ts'

const suffixes = {
  locks: '',
  waiters: '_waiters',
  attempt: '_attempt',
  first: '_first',
  passOn: '_pass_on',
  release: '_release',
  withdraw: '_withdraw',
  renew: '_renew',
  renewLocked: '_renew_locked',
  adopt: '_adopt',
  break: '_break',
  inspect: '_inspect',
  waiting: '_waiting',
  prune: '_prune',
  pruneWaiters: '_prune_waiters',
  strategy: '_strategy',
  rows: '_rows',
  holders: '_holders',
  mint: '_mint_next',
  oldMint: '_mint',
  pruneRows: '_prune_rows',
}

/** Quoted names of one set of tables and its functions. Schema and table are validated; quoting keeps their case. */
export type Names = Readonly<Record<keyof typeof suffixes | 'resources', string>>

export function namesOf({ schema, table }: Tables): Names {
  const names = quotedNames(suffixes, (suffix) => `"${schema}"."${table}${suffix}"`)
  return { ...names, resources: `"${schema}".fenced_resources` }
}

/** Not prepared: so short that preparing it would cost more. */
export function plain(text: string): Statement {
  return { name: undefined, text }
}

/** The same text has the same name, so that several clients can share a connection. */
export function statement(text: string): Statement {
  return { name: `locks_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`, text }
}

/** The names that a statement is about; null for all. */
export function bytesOf(names: readonly string[] | undefined): Buffer[] | null {
  return names?.map((name) => Buffer.from(name)) ?? null
}

/** The rows of a list. Drops the row without a name, which a statement returns when it finds nothing. */
export function statesOf(rows: readonly Row[]): readonly LockState[] {
  return rows.flatMap(([name, ...row]) => {
    if (typeof name !== 'string') return []
    const waiters = row[4]
    const state = stateFrom(Buffer.from(name, 'hex').toString(), row)
    return [{ ...state, ...(waiters !== undefined && { waiters: Number(waiters) }) }]
  })
}

/** The keys of living connections as numbers: `pg_locks` shows the halves in two columns. */
export const living = `living AS MATERIALIZED (
  SELECT (classid::bigint << 32) | objid::bigint AS key, pid, virtualtransaction FROM pg_locks
  WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND mode = 'ExclusiveLock'
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)`

/**
 * Fails on a standby: holds and waiters are advisory locks of the primary, so a standby would consider all of them
 * gone.
 */
export const onPrimary = '(SELECT pg_current_wal_lsn()) IS NOT NULL'

/** Statements that grant a fence are flushed even if that is not the default: a crash must not reset a fence. */
export const durable = `CASE WHEN current_setting('synchronous_commit') = 'off'
  THEN set_config('synchronous_commit', 'on', true) END`

/**
 * One above the last, and not below the clock: a transaction that holds a lock by itself takes its fence back when it
 * rolls back, and may have used it by then.
 */
export const nextFence = (last: string): string =>
  `greatest(${last} + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)`

export const epochMs = (what: string): string => `(extract(epoch FROM ${what}) * 1000)::float8`
