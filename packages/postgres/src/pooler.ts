import { LockError } from '@locks/core'
import { randomUUID } from 'node:crypto'
import type { Line, Statement } from './line.ts'

const text = (sql: string): Statement => ({ name: '', text: sql })

/**
 * A row lock is a transaction that stays open, with settings of its own. A pooler that gives a server
 * connection to each transaction (PgBouncer with `pool_mode=transaction`) has few of them for
 * everybody, and holders would keep all of them from all others: that is refused.
 *
 * A pooler announces another backend than the one that answers. Whether it keeps a session together is
 * seen from a setting: made by one connection, it must stay there and show on no other.
 */
export async function refuseTransactionPooling(line: Line, openAnother: () => Promise<Line>): Promise<void> {
  const [[pid] = []] = await line.query(text('SELECT pg_backend_pid()'))
  if (Number(pid) === line.announcedPid) return
  const mark = randomUUID()
  const read = text("SELECT current_setting('locks.session', true)")
  await line.query(text("SELECT set_config('locks.session', $1, false)"), [mark])
  const other = await openAnother()
  try {
    await other.query(text('BEGIN'))
    const [[elsewhere] = []] = await other.query(read)
    const [[here] = []] = await line.query(read)
    await other.query(text('ROLLBACK'))
    if (elsewhere === mark || here !== mark)
      throw new LockError(
        'LOCK_UNSUPPORTED',
        '@locks/postgres: strategy row does not work through a pooler in transaction mode (PgBouncer); ' +
          'connect directly, or use strategy unique-key with listen: false',
      )
  } finally {
    await other.close()
  }
}
