import { LockError } from '@locks/core/adapter'
import type { Line, Statement } from './line.ts'

/** `none`: nothing in between, as far as can be seen. */
export type Pooling = 'none' | 'session' | 'transaction'

/** Opens a connection, unless it is told meanwhile that nobody needs it any more. */
type Open = (closing: AbortSignal) => Promise<Line>

/** How many transactions are held open to keep the server connection of another from it. */
const CROWD = 3

const begin: Statement = { name: undefined, text: 'BEGIN' }
const rollback: Statement = { name: undefined, text: 'ROLLBACK' }
const whoAnswers: Statement = { name: undefined, text: 'SELECT pg_backend_pid()' }

/**
 * A row lock is a transaction that stays open, with settings of its own. A pooler that gives a server
 * connection to each transaction (PgBouncer with `pool_mode=transaction`) has few of them for
 * everybody, and holders would keep all of them from all others: that is refused. So is listening, which
 * belongs to a server connection and not to a transaction.
 *
 * Only one connection looks, for all that are opened alike: two might keep the pooler from showing what it does.
 */
export function refusingPoolers(open: Open): Open {
  let looked: Promise<Pooling> | undefined

  return async (closing) => {
    const line = await open(closing)
    try {
      const pid = (line.pid = await line.promptly(() => backendOf(line)))
      if (pid === line.announcedPid) return line
      looked ??= line.promptly(() => look(line, pid, () => open(closing)))
      if ((await looked) === 'transaction') throw pooled()
      return line
    } catch (error) {
      looked = undefined
      line.destroy()
      throw error
    }
  }
}

/** What stands between here and the server. */
export async function poolingOf(open: () => Promise<Line>): Promise<Pooling> {
  const line = await open()
  try {
    const pid = await line.promptly(() => backendOf(line))
    return pid === line.announcedPid ? 'none' : await line.promptly(() => look(line, pid, open))
  } finally {
    await line.close()
  }
}

/** Whether the server itself is at the other end, and the session so belongs to this connection alone. */
export async function isDirect(line: Line): Promise<boolean> {
  return (await backendOf(line)) === line.announcedPid
}

/** A connection that is answered by another backend than before is none of its own. */
export function sameBackend(before: number | undefined, now: number): number {
  if (before === undefined || before === now) return now
  throw pooled()
}

/**
 * A pooler announces another backend than the one that answers. Whether it keeps a session together is seen once
 * others have transactions open: then one of them has got the backend of the first, or the first gets another.
 */
async function look(line: Line, pid: number, open: () => Promise<Line>): Promise<Pooling> {
  const crowd: Line[] = []
  try {
    for (let n = 0; n < CROWD; n += 1) {
      const other = await open()
      crowd.push(other)
      // A pooler that has no connection to spare answers nobody.
      const [, theirs] = await other.promptly(() => Promise.all([other.query(begin), backendOf(other)]))
      if (theirs === pid) return 'transaction'
    }
    return (await backendOf(line)) === pid ? 'session' : 'transaction'
  } finally {
    await Promise.all(crowd.map(leave))
  }
}

function pooled(): LockError {
  return new LockError(
    'LOCK_UNSUPPORTED',
    '@locks/postgres: strategy row does not work through a pooler in transaction mode (PgBouncer); ' +
      'connect directly, or use strategy unique-key with listen: false',
  )
}

async function leave(line: Line): Promise<void> {
  await line.promptly(() => line.query(rollback)).catch(() => undefined)
  await line.close()
}

async function backendOf(line: Line): Promise<number> {
  const [[pid] = []] = await line.query(whoAnswers)
  return Number(pid)
}
