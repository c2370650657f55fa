import type { LockError } from '@locks/core/adapter'
import { onOneConnection } from '@locks/sql'
import { randomUUID } from 'node:crypto'
import type { PostgresConnection } from './connection.ts'
import { errors } from './errors.ts'
import { plain } from './sql.ts'

/** What stands between client and server. `none`: nothing, as far as can be seen. */
export type Pooling = 'none' | 'session' | 'transaction'

/** Opens a connection. Gives up when `closing` aborts. */
type Open = (closing: AbortSignal) => Promise<PostgresConnection>

/** How many transactions are opened to take a shared server connection away from the first client connection. */
const CROWD = 3

const begin = plain('BEGIN')
const rollback = plain('ROLLBACK')
const whoAnswers = plain('SELECT pg_backend_pid()')
const lastStatement = plain('SELECT query FROM pg_stat_activity WHERE pid = $1')

/**
 * Refuses a pooler in transaction mode (PgBouncer with `pool_mode=transaction`). A row lock is a transaction that stays
 * open: holders would take the few server connections away from all other clients. Listening and advisory locks belong
 * to a server connection, not to a transaction.
 *
 * Only one connection tests the pooler, for all that are opened alike: two tests would disturb each other.
 */
export function refusingPoolers(open: Open): Open {
  let looked: Promise<Pooling> | undefined

  return async (closing) => {
    const connection = await open(closing)
    try {
      const pid = (connection.pid = await connection.promptly(() => backendOf(connection)))
      if (pid === connection.announcedPid) return connection
      looked ??= connection.promptly(() => look(connection, pid, () => open(closing)))
      if ((await looked) === 'transaction') throw pooled()
      return connection
    } catch (error) {
      looked = undefined
      connection.destroy()
      throw error
    }
  }
}

export function poolingOf(open: () => Promise<PostgresConnection>): Promise<Pooling> {
  return onOneConnection(open, errors, async (connection) => {
    const pid = await connection.promptly(() => backendOf(connection))
    return pid === connection.announcedPid ? 'none' : connection.promptly(() => look(connection, pid, open))
  })
}

/** Whether the server itself is at the other end, so that the session belongs to this connection alone. */
export async function isDirect(connection: PostgresConnection): Promise<boolean> {
  return (await backendOf(connection)) === connection.announcedPid
}

/** A connection answered by another backend than before is shared through a pooler. */
export function sameBackend(before: number | undefined, now: number): number {
  if (before === undefined || before === now) return now
  throw pooled()
}

/**
 * A pooler announces another backend than the one that answers. Whether it keeps sessions together shows once other
 * connections have had transactions open: in transaction mode one of them gets the backend of the first, or the first
 * gets one of theirs. Other clients may keep that backend busy meanwhile, so a mark shows whether it served others too.
 */
async function look(
  connection: PostgresConnection,
  pid: number,
  open: () => Promise<PostgresConnection>,
): Promise<Pooling> {
  const crowd: PostgresConnection[] = []
  const mark = randomUUID()
  const marked = plain(`SELECT pg_backend_pid() /* ${mark} */`)
  try {
    if ((await backendOf(connection, marked)) !== pid) return 'transaction'
    for (let n = 0; n < CROWD; n += 1) {
      const other = await open()
      crowd.push(other)
      // A pooler without a spare connection does not answer at all.
      const [, theirs] = await other.promptly(() => Promise.all([other.query(begin), backendOf(other)]))
      if (theirs === pid) return 'transaction'
      const [[statement] = []] = await other.promptly(() => other.query(lastStatement, [String(pid)]))
      // Empty where the server does not track activities.
      if (statement && !statement.includes(mark)) return 'transaction'
    }
    // The server connection that a pooler got back last is the one it lends next.
    for (const other of crowd) {
      await other.promptly(() => other.query(rollback))
      if ((await backendOf(connection)) !== pid) return 'transaction'
    }
    return 'session'
  } finally {
    await Promise.all(crowd.map(rollBackAndClose))
  }
}

function pooled(): LockError {
  return errors.unsupported(
    'strategies row and advisory do not work through a pooler in transaction mode (PgBouncer); ' +
      'connect directly, or use strategy unique-key with listen: false',
  )
}

async function rollBackAndClose(connection: PostgresConnection): Promise<void> {
  await connection.promptly(() => connection.query(rollback)).catch(() => undefined)
  await connection.close()
}

async function backendOf(connection: PostgresConnection, statement = whoAnswers): Promise<number> {
  const [[pid] = []] = await connection.query(statement)
  return Number(pid)
}
