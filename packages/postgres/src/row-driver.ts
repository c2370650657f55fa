import { readHolder, writeHolder } from '@locks/sql'
import type { SessionDriver } from '@locks/sql'
import { randomBytes } from 'node:crypto'
import { codeOf, isEnd } from './errors.ts'
import type { Line, Row } from './line.ts'
import { sameBackend } from './pooler.ts'
import type { Runner } from './runner.ts'
import type { RowStatements } from './sql.ts'

/** The wait ended without a grant, but nothing is wrong: cancelled, timed out, chosen by the deadlock detector. */
const worthAnotherTry = new Set(['57014', '55P03', '40P01', '40001'])

const nothing: Promise<readonly Row[]> = Promise.resolve([])

/** A lock is a row that an open transaction has locked, and the key of a hold an advisory lock of that transaction. */
export function rowDriver(sql: RowStatements, runner: Runner): SessionDriver<Line> {
  async function isThere({ pid }: Line): Promise<boolean> {
    return pid === undefined || (await runner.run(sql.isThere, [pid])).length > 0
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
      const [, , [got]] = await Promise.all(
        line.together(
          () =>
            [
              known ? nothing : line.query(sql.allow, [String(silenceMs)]),
              line.query(sql.begin),
              line.query(sql.tryLock, [name, key]),
            ] as const,
        ),
      )
      line.silenceMs = silenceMs
      if (got !== undefined) {
        line.pid = sameBackend(line.pid, Number(got[1]))
        return 'locked'
      }
      const [[there, pid, fence, holder, since] = []] = await line.query(sql.look, [name])
      line.pid = sameBackend(line.pid, Number(pid))
      return there === 't' ? { holder: readHolder(holder, fence, since) } : 'missing'
    },

    async make(_line, { request }) {
      await runner.run(sql.makeRow, [Buffer.from(request.name)])
    },

    queue(line, { request, key }) {
      // Sent together: the server takes one after the other, and stays with the second.
      const prepared = line.query(sql.prepareWait)
      const locked = line.query(sql.lock, [Buffer.from(request.name), key]).then((rows) => rows.length > 0)
      // The second also opens the connection on which a wait is cancelled, if there was none: that must not take long.
      return { queued: Promise.all([prepared, isThere(line)]), locked }
    },

    async mint({ pid }, { request, key }) {
      const values = [Buffer.from(request.name), request.attemptId, writeHolder(request), key, pid]
      const [[fence] = []] = await runner.run(sql.mint, values)
      if (fence !== null && fence !== undefined) return BigInt(fence)
      const [[first] = []] = await runner.run(sql.mintFirst, values)
      return first === null || first === undefined ? undefined : BigInt(first)
    },

    async probe(line, silenceMs) {
      await line.query(sql.probe, [String(silenceMs)])
    },

    async free(line) {
      await line.query(sql.rollback)
      return true
    },

    async cancel({ pid }) {
      if (pid !== undefined) await runner.run(sql.cancel, [pid])
    },

    async holderOf(name) {
      const [[attemptId, fence, holder, since] = []] = await runner.run(sql.inspect, [Buffer.from(name)])
      const by = readHolder(holder, fence, since)
      return by && { attemptId: attemptId ?? '', holder: by }
    },

    async evict(name, attemptId) {
      await runner.run(sql.terminate, [Buffer.from(name), attemptId])
    },

    saysEnded: (error) => isEnd(error),
    isWorthAnotherTry: (error) => worthAnotherTry.has(codeOf(error) ?? ''),
  }
}
