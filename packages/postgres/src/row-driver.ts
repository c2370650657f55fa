import { writeHolder } from '@locks/core/adapter'
import { holderFrom } from '@locks/sql'
import type { SessionDriver } from '@locks/sql'
import { randomBytes } from 'node:crypto'
import { codeOf, errors, isEnd, isOfFailedTransaction } from './errors.ts'
import type { PostgresConnection, Row } from './connection.ts'
import { sameBackend } from './pooler.ts'
import type { Runner } from './runner.ts'
import type { RowStatements } from './sql.ts'

/** The wait was cancelled, timed out or was chosen by the deadlock detector. */
const worthAnotherTry = new Set(['57014', '55P03', '40P01', '40001'])

function fenceOf([fence]: Row = []): bigint | undefined {
  return fence === null || fence === undefined ? undefined : BigInt(fence)
}

const nothing: Promise<readonly Row[]> = Promise.resolve([])

/** A lock is a row locked by an open transaction. The key of a hold is an advisory lock of that transaction. */
export function rowDriver(sql: RowStatements, runner: Runner): SessionDriver<PostgresConnection> {
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

    async evict(name, attemptId) {
      await runner.run(sql.terminate, [Buffer.from(name), attemptId])
    },

    // A transaction that failed has freed its locks.
    saysEnded: (error) => isEnd(error) || isOfFailedTransaction(error),
    isWorthAnotherTry: (error) => worthAnotherTry.has(codeOf(error) ?? ''),
  }
}
