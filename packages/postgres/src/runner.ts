import type { Clock } from '@locks/core/adapter'
import { fromPool, onOwnConnections, onProgramPool, retried, unlessSilent } from '@locks/sql'
import type { Room } from '@locks/sql'
import { randomBytes } from 'node:crypto'
import { PostgresConnection } from './connection.ts'
import type { Row, Statement } from './connection.ts'
import type { GivenPool } from './drivers/driver.ts'
import { errors, isOfItsName, isOfOtherDefaults, isRefusal } from './errors.ts'
import type { Settings } from './options.ts'
import { isDirect } from './pooler.ts'
import { plain } from './sql.ts'

/** Runs single, committed statements, each on any free connection. */
export interface Runner extends Room {
  run(statement: Statement, values: unknown[]): Promise<readonly Row[]>
  /**
   * The same for a statement that takes a nonce as its last value and returns it as the first column of each row, of
   * which there is at least one; it is left out here. Client libraries pair replies with statements by their order:
   * a reply with another nonce ends its connection, and the outcome is unknown.
   */
  ask(statement: Statement, values: unknown[]): Promise<readonly [Row, ...Row[]]>
  /** The one row of such a statement, if there is one. A reply without a row has no nonce, so it proves nothing. */
  find(statement: Statement, values: unknown[]): Promise<Row | undefined>
}

/**
 * Below the time after which the connection of a silent statement is closed: a server process that waits for a lock
 * does not notice that, and would keep one of the server's connections until it has the lock.
 */
const LOCK_WAIT_MS = 4_000

/** Functions of several statements need these; the defaults of a role or a database may differ. */
const ourDefaults = plain(
  'SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE',
)

export function runnerFor({ pool, config, listen, poolSize, errors: its }: Settings, clock: Clock): Runner {
  const open = (closing: AbortSignal): Promise<PostgresConnection> =>
    PostgresConnection.open(config, { named: listen, lockWaitMs: LOCK_WAIT_MS, closing })
  const { send: run, ...sender } =
    pool === undefined
      ? onOwnConnections({ open, max: poolSize, clock, errors }, runOn)
      : onProgramPool(
          () => pool.hasRoom(),
          (...call: Parameters<Run>) => runInPool(pool, listen, clock, ...call),
        )
  const safely = retried(unnamedIfNeeded(run), its, clock)
  const nonces = nonceMaker()
  const rowsOf = (statement: Statement, values: unknown[], least: 0 | 1): Promise<readonly Row[]> => {
    const nonce = nonces()
    // Counted, since a check of every row would pass over holes.
    const answers: Answers = (rows) =>
      rows.length >= least && rows.filter(([first]) => first === nonce).length === rows.length
    return safely(statement, [...values, nonce], answers)
  }
  return {
    ...sender,
    run: (statement, values) => safely(statement, values, () => true),
    async ask(statement, values) {
      const [row = [], ...rows] = await rowsOf(statement, values, 1)
      return [withoutNonce(row), ...rows.map(withoutNonce)]
    },
    async find(statement, values) {
      const [row] = await rowsOf(statement, values, 0)
      return row && withoutNonce(row)
    },
  }
}

function withoutNonce([, ...row]: Row): Row {
  return row
}

type Run = (statement: Statement, values: unknown[], answers: Answers) => Promise<readonly Row[]>

/** Whether these rows are the reply to the statement. */
type Answers = (rows: readonly Row[]) => boolean

/** A pooler in transaction mode mixes up the names of statements: after the first error they are sent without. */
function unnamedIfNeeded(run: Run): Run {
  let named = true
  const unnamed = ({ text }: Statement): Statement => ({ name: undefined, text })
  return async (statement, ...rest) => {
    try {
      return await run(named ? statement : unnamed(statement), ...rest)
    } catch (error) {
      if (!isOfItsName(error)) throw error
      named = false
      return run(unnamed(statement), ...rest)
    }
  }
}

function nonceMaker(): () => string {
  const prefix = randomBytes(6).toString('hex')
  let count = 0
  return () => `${prefix}.${++count}`
}

async function runOn(
  connection: PostgresConnection,
  statement: Statement,
  values: unknown[],
  answers: Answers,
): Promise<readonly Row[]> {
  const rows = await connection.query(statement, values).catch(async (error: unknown) => {
    // Behind a pooler the settings of a connection are shared with other clients.
    if (!isOfOtherDefaults(error) || !(await isDirect(connection))) throw error
    await connection.query(ourDefaults)
    return connection.query(statement, values)
  })
  if (answers(rows)) return rows
  connection.destroy()
  throw errors.wrongReply()
}

/** Takes a connection of the program's pool for one statement. */
async function runInPool(
  pool: GivenPool,
  named: boolean,
  clock: Clock,
  statement: Statement,
  values: unknown[],
  answers: Answers,
): Promise<readonly Row[]> {
  const lent = await fromPool(
    () => pool.take(),
    (late) => late.giveBack(false),
    () => pool.use(),
    clock,
    errors,
  )
  let useless = false
  try {
    const rows = await unlessSilent(lent.query(statement, values, named), clock, errors, () => undefined)
    useless = !answers(rows)
    if (useless) throw errors.wrongReply()
    if (lent.committed) return rows
  } catch (error) {
    useless ||= !isRefusal(error)
    if (lent.committed) throw error
  } finally {
    // Ending the connection rolls an open transaction back.
    lent.giveBack(useless || !lent.committed)
  }
  // An uncommitted lock is not held, and blocks all other clients.
  throw errors.invalid(
    'a transaction was left open in your pool, so the lock was not committed; end it before you release its client',
  )
}
