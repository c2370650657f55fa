import { readHolder, writeHolder } from '@locks/sql'
import type { SessionDriver } from '@locks/sql'
import { randomBytes } from 'node:crypto'
import { codeOf, faults, isEnd, isOfFailedTransaction } from './errors.ts'
import type { Line, Row } from './line.ts'
import { sameBackend } from './pooler.ts'
import type { Runner } from './runner.ts'
import type { RowStatements } from './sql.ts'

/** The wait ended without a grant, but nothing is wrong: cancelled, timed out, chosen by the deadlock detector. */
const worthAnotherTry = new Set(['57014', '55P03', '40P01', '40001'])

function fenceOf([fence]: Row = []): bigint | undefined {
  return fence === null || fence === undefined ? undefined : BigInt(fence)
}

const nothing: Promise<readonly Row[]> = Promise.resolve([])

/** A lock is a row that an open transaction has locked, and the key of a hold an advisory lock of that transaction. */
export function rowDriver(sql: RowStatements, runner: Runner): SessionDriver<Line> {
  async function isThere({ pid }: Line): Promise<boolean> {
    if (pid === undefined) return true
    const [[there]] = await runner.ask(sql.isThere, [pid])
    return there === 't'
  }

  // A random number for each hold would cost as much as the rest of the bookkeeping; where to begin is random enough.
  let lastKey = randomBytes(8).readBigUInt64BE() >> 2n

  return {
    newKey: () => String(++lastKey),
    isThere,

    async tryLock(line, { request, key }, silenceMs) {
      const name = Buffer.from(request.name)
      const known = line.silenceMs === silenceMs
      // Unknown until all is answered: the server may take this and refuse the try.
      line.silenceMs = undefined
      const [, , [locked, backend, transaction]] = await Promise.all(
        line.together(
          () =>
            [
              known ? nothing : line.query(sql.allow, [String(silenceMs)]),
              line.query(sql.begin),
              line.ask(sql.tryLock, [name, key]),
            ] as const,
        ),
      )
      line.silenceMs = silenceMs
      line.pid = sameBackend(line.pid, Number(backend))
      line.transaction = locked === 't' ? (transaction ?? undefined) : undefined
      if (line.transaction !== undefined) return 'locked'
      const [there, pid, fence, holder, since] = await line.ask(sql.look, [name])
      line.pid = sameBackend(line.pid, Number(pid))
      return there === 't' ? { holder: readHolder(holder, fence, since) } : 'missing'
    },

    async make(_line, { request }) {
      await runner.run(sql.makeRow, [Buffer.from(request.name)])
    },

    queue(line, { request, key }) {
      // Sent together: the server takes one after the other, and stays with the second.
      const prepared = line.query(sql.prepareWait)
      const locked = line.ask(sql.lock, [Buffer.from(request.name), key]).then(([got, , transaction]) => {
        line.transaction = got === 't' ? (transaction ?? undefined) : undefined
        return line.transaction !== undefined
      })
      // The second also opens the connection on which a wait is cancelled, if there was none: that must not take long.
      return { queued: Promise.all([prepared, isThere(line)]), locked }
    },

    async mint({ pid }, { request, key }) {
      const values = [Buffer.from(request.name), request.attemptId, writeHolder(request), key, pid]
      return fenceOf(await runner.find(sql.mint, values)) ?? fenceOf(await runner.find(sql.mintFirst, values))
    },

    async probe(line, silenceMs) {
      const { transaction } = line
      const [current] = await line.ask(sql.probe, [String(silenceMs)])
      if (current !== transaction) throw faults.unavailable('the transaction of this hold is over')
    },

    async free(line) {
      const { transaction } = line
      line.transaction = undefined
      if (transaction === undefined) {
        await line.query(sql.rollback)
        return false
      }
      const sent = line.together(() => [line.ask(sql.prove), line.query(sql.rollback)] as const)
      const [[proven]] = await Promise.all(sent)
      return proven === transaction
    },

    async cancel({ pid }) {
      if (pid !== undefined) await runner.run(sql.cancel, [pid])
    },

    async holderOf(name) {
      const [[attemptId, fence, holder, since]] = await runner.ask(sql.inspect, [Buffer.from(name)])
      const by = readHolder(holder, fence, since)
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
