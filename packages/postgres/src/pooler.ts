import { LockError } from '@locks/core'
import type { Line, Statement } from './line.ts'

/** How many transactions are held open to keep the server connection of another from it. */
const CROWD = 3
const PATIENCE_MS = 5_000

const begin: Statement = { name: '', text: 'BEGIN' }
const rollback: Statement = { name: '', text: 'ROLLBACK' }
const whoAnswers: Statement = { name: '', text: 'SELECT pg_backend_pid()' }

/**
 * A row lock is a transaction that stays open, with settings of its own. A pooler that gives a server
 * connection to each transaction (PgBouncer with `pool_mode=transaction`) has few of them for
 * everybody, and holders would keep all of them from all others: that is refused.
 *
 * A pooler announces another backend than the one that answers. Whether it keeps a session together is seen once
 * others are busy. Only one looks at a time: two might keep the pooler from showing what it does.
 */
export function poolerCheck(open: () => Promise<Line>): () => Promise<Line> {
  let looked: Promise<void> | undefined

  return async () => {
    const line = await open()
    try {
      line.pid = await backendOf(line)
      if (line.pid === line.announcedPid) return line
      looked ??= look(line, open)
      await looked
      return line
    } catch (error) {
      looked = undefined
      line.destroy()
      throw error
    }
  }
}

/** A connection that is answered by another backend than before is none of its own. */
export function notPooled(before: number | undefined, now: number): number {
  if (before === undefined || before === now) return now
  throw pooled()
}

function pooled(): LockError {
  return new LockError(
    'LOCK_UNSUPPORTED',
    '@locks/postgres: strategy row does not work through a pooler in transaction mode (PgBouncer); ' +
      'connect directly, or use strategy unique-key with listen: false',
  )
}

async function look(line: Line, open: () => Promise<Line>): Promise<void> {
  const crowd: Line[] = []
  // A pooler that has no connection to spare answers nobody.
  const timer = setTimeout(() => [line, ...crowd].forEach((one) => one.destroy()), PATIENCE_MS)
  timer.unref()
  try {
    for (let n = 0; n < CROWD; n += 1) {
      const other = await open()
      crowd.push(other)
      await other.query(begin)
      if ((await backendOf(other)) === line.pid) throw pooled()
    }
    notPooled(line.pid, await backendOf(line))
  } finally {
    clearTimeout(timer)
    await Promise.all(crowd.map(leave))
  }
}

async function leave(line: Line): Promise<void> {
  await line.query(rollback).catch(() => undefined)
  await line.close()
}

async function backendOf(line: Line): Promise<number> {
  const [[pid] = []] = await line.query(whoAnswers)
  return Number(pid)
}
