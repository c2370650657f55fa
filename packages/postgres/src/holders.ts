import { writeHolder } from '@locks/core/adapter'
import type { Holder } from '@locks/core/adapter'
import { holderFrom } from '@locks/sql'
import type { HoldInfo, SessionDriver } from '@locks/sql'
import { randomBytes } from 'node:crypto'
import type { PostgresConnection, Row } from './connection.ts'
import { nameKeyOf } from './name-key.ts'
import type { Tables } from './options.ts'
import type { Runner } from './runner.ts'
import { durable, epochMs, living, namesOf, nextFence, onPrimary, statement, statesOf } from './sql.ts'

type Shared = Pick<SessionDriver<PostgresConnection>, 'holderOf' | 'list'>

/**
 * The table of holders, where locks are held by connections. The key of a hold is an advisory lock of its connection:
 * any session finds out by trying to lock the key whether the hold still lives.
 */
export interface HolderTable extends Shared {
  /** Records the holder and returns the next fence; undefined when the hold has ended. */
  mint(hold: HoldInfo, pid: number | undefined): Promise<bigint | undefined>
  /** Has the server end the connection of a hold, unless it is among `spared`. Resolves with whether it did. */
  breakHold(name: string, attemptId: string, spared?: readonly number[]): Promise<boolean>
  /** Has the server cancel the statement under way on a connection. */
  cancel(pid: number | undefined): Promise<void>
  /** Whether a hold with this key lives. */
  isAlive(key: string): Promise<boolean>
  /** Whether the server still has a connection. */
  isThere(pid: number | undefined): Promise<boolean>
}

export function holderTable(tables: Tables, runner: Runner): HolderTable {
  const sql = statementsOf(tables)
  return {
    async mint({ request, key }, pid) {
      const values = [Buffer.from(request.name), request.attemptId, writeHolder(request), key, pid]
      return fenceOf(await runner.find(sql.mint, values)) ?? fenceOf(await runner.find(sql.mintFirst, values))
    },

    async holderOf(name) {
      const values = [Buffer.from(name), nameKeyOf(tables, name)]
      const [[attemptId, fence, holder, since, id, pid]] = await runner.ask(sql.inspect, values)
      const by = holderFrom(holder, fence, since)
      if (by === undefined && id && pid) return { attemptId: id, holder: inBackend(id, pid) }
      return by && { attemptId: attemptId ?? '', holder: by }
    },

    list: async (limit) => statesOf(await runner.ask(sql.list, [limit])),

    async breakHold(name, attemptId, spared = []) {
      const [[ended]] = await runner.ask(sql.breakHold, [Buffer.from(name), attemptId, spared])
      return ended !== '0'
    },

    async cancel(pid) {
      if (pid !== undefined) await runner.run(sql.cancel, [pid])
    },

    async isAlive(key) {
      const [[alive]] = await runner.ask(sql.isAlive, [key])
      return alive === 't'
    },

    async isThere(pid) {
      if (pid === undefined) return true
      const [[there]] = await runner.ask(sql.isThere, [pid])
      return there === 't'
    },
  }
}

/** Counts up from a random start: a random number for each hold would cost as much as the rest of its bookkeeping. */
export function keyMaker(): () => string {
  let last = randomBytes(8).readBigUInt64BE() >> 2n
  return () => String(++last)
}

function fenceOf([fence]: Row = []): bigint | undefined {
  return fence === null || fence === undefined ? undefined : BigInt(fence)
}

/** That a hold lives: its key cannot be locked. */
export const lives = 'NOT pg_try_advisory_xact_lock_shared(h.key)'

/** What is known of a transaction that holds a name by itself: its writes are not visible yet. */
export const inBackend = (id: string, pid: string): Holder => ({
  owner: `transaction ${id} of backend ${pid}`,
})

/**
 * Beside holder `h`: the number and the backend of a transaction that holds the name whose key is given. A backend has
 * many transactions, one after the other: only the number says which one it is.
 */
export const byTransaction = (key: string): string =>
  ['virtualtransaction', 'pid']
    .map(
      (column) => `CASE WHEN h.name IS NULL THEN (SELECT min(${column}) FROM living WHERE key = ${key}) END`,
    )
    .join(', ')

function statementsOf(tables: Tables) {
  const to = namesOf(tables)
  return {
    mint: statement(`UPDATE ${to.holders} SET fence = ${nextFence('fence')}, attempt = $2, holder = $3,
  since = clock_timestamp(), key = $4, pid = $5 WHERE name = $1 AND NOT pg_try_advisory_xact_lock_shared($4)
RETURNING $6::text, fence, ${durable}`),
    mintFirst: statement(`SELECT $6::text, ${to.mint}($1, $2, $3, $4, $5)`),
    inspect: statement(`WITH ${living} SELECT $3::text, h.attempt, h.fence, h.holder, ${epochMs('h.since')},
  ${byTransaction('$2')}
FROM (SELECT) AS once LEFT JOIN ${to.holders} h ON h.name = $1 AND ${lives} WHERE ${onPrimary}`),
    // Found by the key it holds now: another session may have the process number of the holder by now.
    breakHold:
      statement(`WITH ${living} SELECT $4::text, count(pg_terminate_backend(living.pid)) FROM ${to.holders} h
JOIN living ON living.key = h.key
WHERE h.name = $1 AND h.attempt = $2 AND living.pid <> ALL ($3::int[]) AND ${onPrimary}`),
    list: statement(`WITH ${living} SELECT $2::text, encode(h.name, 'hex'), h.fence, h.holder, ${epochMs('h.since')}
FROM (SELECT) AS once LEFT JOIN (${to.holders} h JOIN living ON living.key = h.key) ON true
WHERE ${onPrimary} LIMIT $1`),
    cancel: statement('SELECT pg_cancel_backend($1)'),
    isAlive: statement(`SELECT $2::text, NOT pg_try_advisory_xact_lock_shared($1) WHERE ${onPrimary}`),
    isThere: statement('SELECT $2::text, EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)'),
  }
}
