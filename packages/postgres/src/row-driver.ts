import type { Pruned } from '@locks/core/adapter'
import { holderFrom, PRUNE_BATCH } from '@locks/sql'
import type { SessionDriver } from '@locks/sql'
import { errors, isEnd, isEndOfWait, isOfFailedTransaction } from './errors.ts'
import type { PostgresConnection, Row } from './connection.ts'
import { byTransaction, holderTable, inBackend, keyMaker, lives } from './holders.ts'
import { nameKeyOf } from './name-key.ts'
import type { Tables } from './options.ts'
import { sameBackend } from './pooler.ts'
import type { Runner } from './runner.ts'
import { bytesOf, epochMs, living, namesOf, onPrimary, plain, statement } from './sql.ts'

const nothing: Promise<readonly Row[]> = Promise.resolve([])

export interface RowDriver extends SessionDriver<PostgresConnection> {
  prune(idleMs: number, names?: readonly string[]): Promise<Pruned>
}

/** A lock is a row locked by an open transaction. The key of a hold is an advisory lock of that transaction. */
export function rowDriver(tables: Tables, runner: Runner): RowDriver {
  const sql = statementsOf(tables)
  const holders = holderTable(tables, runner)
  const nameKey = (name: string): string => nameKeyOf(tables, name)
  const isThere = ({ pid }: PostgresConnection): Promise<boolean> => holders.isThere(pid)

  return {
    newKey: keyMaker(),
    isThere,
    mint: ({ pid }, hold) => holders.mint(hold, pid),
    cancel: ({ pid }) => holders.cancel(pid),
    list: (limit) => holders.list(limit),

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
              connection.ask(sql.tryLock, [name, key, nameKey(request.name)]),
            ] as const,
        ),
      )
      connection.silenceMs = silenceMs
      connection.pid = sameBackend(connection.pid, Number(backend))
      connection.transaction = locked === 't' ? (transaction ?? undefined) : undefined
      if (connection.transaction !== undefined) return 'locked'
      const [there, pid, fence, holder, since, id, by] = await connection.ask(sql.look, [
        name,
        nameKey(request.name),
      ])
      connection.pid = sameBackend(connection.pid, Number(pid))
      if (there !== 't') return 'missing'
      return { holder: holderFrom(holder, fence, since) ?? (id && by ? inBackend(id, by) : undefined) }
    },

    async make(_, { request }) {
      await runner.run(sql.makeRow, [Buffer.from(request.name)])
    },

    queue(connection, { request, key }) {
      // Sent together: the server runs one after the other, and waits in the second.
      const prepared = connection.query(sql.prepareWait)
      const locked = connection
        .ask(sql.lock, [Buffer.from(request.name), key, nameKey(request.name)])
        .then(([got, , transaction]) => {
          connection.transaction = got === 't' ? (transaction ?? undefined) : undefined
          return connection.transaction !== undefined
        })
      // `isThere` also opens the connection on which a wait is cancelled, so that cancelling does not take long.
      return { queued: Promise.all([prepared, isThere(connection)]), locked }
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

    holderOf: (name) => holders.holderOf(name),

    async breakHold(name, attemptId) {
      const [[ended]] = await runner.ask(sql.breakHold, [Buffer.from(name), attemptId, nameKey(name)])
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

function statementsOf(tables: Tables) {
  const to = namesOf(tables)
  const allowing = (local: string): string =>
    `set_config('idle_in_transaction_session_timeout', $1, ${local})`
  // Locking a row gives a transaction its number. While the number is the same, the row is locked.
  const transaction = 'txid_current_if_assigned()'
  // The row first, then its name, which a transaction may hold without the row.
  const locking = (row: string, named: string): string =>
    `SELECT $4::text, got.locked, pg_backend_pid(), ${transaction} FROM (SELECT) AS once LEFT JOIN (
  SELECT CASE WHEN ${named} THEN pg_try_advisory_xact_lock($2) ELSE false END AS locked FROM (${row}) AS found
) AS got ON true`
  return {
    makeRow: statement(`INSERT INTO ${to.rows} (name) VALUES ($1) ON CONFLICT DO NOTHING`),
    // The server ends a holder that is silent for longer. Set for the connection: a rollback would undo it in the
    // transaction.
    allow: statement(`SELECT ${allowing('false')}`),
    begin: plain('BEGIN ISOLATION LEVEL READ COMMITTED'),
    tryLock: statement(
      locking(
        `SELECT FROM ${to.rows} WHERE name = $1 FOR UPDATE SKIP LOCKED`,
        'pg_try_advisory_xact_lock_shared($3)',
      ),
    ),
    look: statement(`WITH ${living} SELECT $3::text, there.name IS NOT NULL, pg_backend_pid(), h.fence, h.holder,
  ${epochMs('h.since')}, ${byTransaction('$2')}
FROM (VALUES ($1::bytea)) AS wanted (name)
LEFT JOIN ${to.rows} there ON there.name = wanted.name
LEFT JOIN ${to.holders} h ON h.name = wanted.name AND ${lives}`),
    prepareWait: statement(
      `SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)`,
    ),
    lock: statement(
      locking(
        `SELECT FROM ${to.rows} WHERE name = $1 FOR UPDATE`,
        'pg_advisory_xact_lock_shared($3) IS NOT NULL',
      ),
    ),
    probe: statement(`SELECT $2::text, ${transaction}, ${allowing('true')}`),
    prove: statement(`SELECT $1::text, ${transaction}`),
    rollback: plain('ROLLBACK'),
    // Found by the key it holds now: another session may have the process number of the holder by now.
    breakHold: statement(`WITH ${living} SELECT $4::text, count(pg_terminate_backend(living.pid)) FROM living
WHERE (key = (SELECT h.key FROM ${to.holders} h WHERE h.name = $1 AND h.attempt = $2)
  OR key = $3 AND virtualtransaction = $2) AND ${onPrimary}`),
    prune: statement(`SELECT $4::text, ${to.pruneRows}($1, $2, $3)`),
  }
}
