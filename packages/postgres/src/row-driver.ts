import { writeHolder } from '@locks/core/adapter'
import type { Pruned } from '@locks/core/adapter'
import { holderFrom, PRUNE_BATCH } from '@locks/sql'
import type { SessionDriver } from '@locks/sql'
import { randomBytes } from 'node:crypto'
import { errors, isEnd, isEndOfWait, isOfFailedTransaction } from './errors.ts'
import type { PostgresConnection, Row } from './connection.ts'
import type { Place } from './options.ts'
import { sameBackend } from './pooler.ts'
import type { Runner } from './runner.ts'
import { bytesOf, durable, epochMs, living, namesOf, onPrimary, plain, statement, statesOf } from './sql.ts'

function fenceOf([fence]: Row = []): bigint | undefined {
  return fence === null || fence === undefined ? undefined : BigInt(fence)
}

const nothing: Promise<readonly Row[]> = Promise.resolve([])

export interface RowDriver extends SessionDriver<PostgresConnection> {
  prune(idleMs: number, names?: readonly string[]): Promise<Pruned>
}

/** A lock is a row locked by an open transaction. The key of a hold is an advisory lock of that transaction. */
export function rowDriver(place: Place, runner: Runner): RowDriver {
  const sql = statementsOf(place)

  async function isThere({ pid }: PostgresConnection): Promise<boolean> {
    if (pid === undefined) return true
    const [[there]] = await runner.ask(sql.isThere, [pid])
    return there === 't'
  }

  // Counted up from a random start: a random number for each hold would cost as much as the rest of the bookkeeping.
  let lastKey = randomBytes(8).readBigUInt64BE() >> 2n

  return {
    newKey: () => String(++lastKey),
    isThere,

    async tryLock(connection, { request, key }, silenceMs) {
      const name = Buffer.from(request.name)
      const known = connection.silenceMs === silenceMs
      // Unknown until all is answered: the server may accept this setting and refuse the try.
      connection.silenceMs = undefined
      const [, , [locked, backend, transaction]] = await Promise.all(
        connection.together(
          () =>
            [
              known ? nothing : connection.query(sql.allow, [String(silenceMs)]),
              connection.query(sql.begin),
              connection.ask(sql.tryLock, [name, key]),
            ] as const,
        ),
      )
      connection.silenceMs = silenceMs
      connection.pid = sameBackend(connection.pid, Number(backend))
      connection.transaction = locked === 't' ? (transaction ?? undefined) : undefined
      if (connection.transaction !== undefined) return 'locked'
      const [there, pid, fence, holder, since] = await connection.ask(sql.look, [name])
      connection.pid = sameBackend(connection.pid, Number(pid))
      return there === 't' ? { holder: holderFrom(holder, fence, since) } : 'missing'
    },

    async make(_line, { request }) {
      await runner.run(sql.makeRow, [Buffer.from(request.name)])
    },

    queue(connection, { request, key }) {
      // Sent together: the server runs one after the other, and waits in the second.
      const prepared = connection.query(sql.prepareWait)
      const locked = connection
        .ask(sql.lock, [Buffer.from(request.name), key])
        .then(([got, , transaction]) => {
          connection.transaction = got === 't' ? (transaction ?? undefined) : undefined
          return connection.transaction !== undefined
        })
      // `isThere` also opens the connection on which a wait is cancelled, so that cancelling does not take long.
      return { queued: Promise.all([prepared, isThere(connection)]), locked }
    },

    async mint({ pid }, { request, key }) {
      const values = [Buffer.from(request.name), request.attemptId, writeHolder(request), key, pid]
      return fenceOf(await runner.find(sql.mint, values)) ?? fenceOf(await runner.find(sql.mintFirst, values))
    },

    async probe(connection, silenceMs) {
      const { transaction } = connection
      const [current] = await connection.ask(sql.probe, [String(silenceMs)])
      if (current !== transaction)
        throw errors.unavailable('the transaction of this hold is over, so the lock is not held')
    },

    async free(connection) {
      const { transaction } = connection
      connection.transaction = undefined
      if (transaction === undefined) {
        await connection.query(sql.rollback)
        return false
      }
      const sent = connection.together(
        () => [connection.ask(sql.prove), connection.query(sql.rollback)] as const,
      )
      const [[proven]] = await Promise.all(sent)
      return proven === transaction
    },

    async cancel({ pid }) {
      if (pid !== undefined) await runner.run(sql.cancel, [pid])
    },

    async holderOf(name) {
      const [[attemptId, fence, holder, since]] = await runner.ask(sql.inspect, [Buffer.from(name)])
      const by = holderFrom(holder, fence, since)
      return by && { attemptId: attemptId ?? '', holder: by }
    },

    list: async (limit) => statesOf(await runner.ask(sql.list, [limit])),

    async evict(name, attemptId) {
      const [[ended]] = await runner.ask(sql.evict, [Buffer.from(name), attemptId])
      return ended !== '0'
    },

    async prune(idleMs, names) {
      const [[count]] = await runner.ask(sql.prune, [idleMs, PRUNE_BATCH, bytesOf(names)])
      const pruned = Number(count)
      return { pruned, more: pruned === PRUNE_BATCH }
    },

    // A transaction that failed has freed its locks.
    saysEnded: (error) => isEnd(error) || isOfFailedTransaction(error),
    isWorthAnotherTry: isEndOfWait,
  }
}

/**
 * The key of a hold is an advisory lock of the holding transaction: any connection can tell at any time, by trying to
 * lock the key, whether that transaction still lives.
 */
function statementsOf(place: Place) {
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
    evict:
      statement(`WITH ${living} SELECT $3::text, count(pg_terminate_backend(living.pid)) FROM ${to.holders} h
JOIN living ON living.key = h.key WHERE h.name = $1 AND h.attempt = $2 AND ${onPrimary}`),
    list: statement(`WITH ${living} SELECT $2::text, encode(h.name, 'hex'), h.fence, h.holder, ${epochMs('h.since')}
FROM (SELECT) AS once LEFT JOIN (${to.holders} h JOIN living ON living.key = h.key) ON true
WHERE ${onPrimary} LIMIT $1`),
    cancel: statement('SELECT pg_cancel_backend($1)'),
    prune: statement(`SELECT $4::text, ${to.pruneRows}($1, $2, $3)`),
    isThere: statement('SELECT $2::text, EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)'),
  }
}
