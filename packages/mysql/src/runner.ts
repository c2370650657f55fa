import type { AcquireRequest, Clock, LockError } from '@locks/core/adapter'
import { fromPool, Lines, onAnyLine, retried, unlessSilent, writeHolder } from '@locks/sql'
import type { Faults } from '@locks/sql'
import type { Pool } from 'mysql2/promise'
import { newEcho, read } from './echo.ts'
import type { Answers } from './echo.ts'
import { faults, isTransient } from './errors.ts'
import { asText, Line, resultOf } from './line.ts'
import type { Cell, Result, Values } from './line.ts'
import type { Settings } from './options.ts'
import { freeIn, promised, useOf } from './pool.ts'

/** Statements here are short: whoever waits for longer than this waits for a stranger's transaction. */
export const LOCK_WAIT_S: number = 1
const IN_TRANSACTION = 1

/** Runs single, committed statements, each on whatever connection is free. */
export interface Runner {
  run(text: string, values?: Values): Promise<Result>
  /** The rows of a statement that takes an echo as its first value and has it as its first column, left out here. */
  look(text: string, values?: Values): Promise<readonly (readonly Cell[])[]>
  /** Rejects what is not the answer to this statement: its connection is ended, and the outcome is not known. */
  ask(text: string, values: Values, isAnswer: Answers): Promise<Result>
  /** The same without another try when the server gives up on a lock that a stranger has. */
  askOnce(text: string, values: Values, isAnswer: Answers): Promise<Result>
  /** Whether a statement is sent at once, without waiting for a connection that others use. */
  hasRoom(): boolean
  close(): Promise<void>
}

const anyAnswer: Answers = () => true

function mixedUp(): LockError {
  return faults.unavailable('the server answered another statement than the one sent')
}

/**
 * How connections of the adapter's own are set up. Too long or wrong values are refused, not cut to fit, and
 * assignments made one after the other. Locking what is not there must not lock the gap around it, against all others.
 * No limit of the server's but our own ends a hold or a wait: some that only MariaDB knows, and one of MySQL, since
 * MariaDB skips what is said for 5.7.
 */
export function setUp(lockWaitS: number): readonly string[] {
  const mode = "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
  return [
    `SET SESSION ${mode}, autocommit = 1, innodb_lock_wait_timeout = ${lockWaitS}
/*M! , max_statement_time = 0, idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0,
  idle_write_transaction_timeout = 0 */
/*!50708 , max_execution_time = 0 */`,
    'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE',
  ]
}

export function runnerFor({ pool, config, poolSize, faults: its }: Settings, clock: Clock): Runner {
  if (pool !== undefined) {
    const shared = promised(pool)
    return runnerOf({
      askOnce: (...call) => runInPool(shared, clock, ...call),
      clock,
      faults: its,
      hasRoom: () => freeIn(pool) > 0,
      close: () => Promise.resolve(),
    })
  }
  const open = (closing: AbortSignal): Promise<Line> => Line.open(config, setUp(LOCK_WAIT_S), closing)
  const lines = new Lines({ open, max: poolSize, clock, faults })
  const askOnce = (text: string, values: Values, isAnswer: Answers): Promise<Result> =>
    onAnyLine(lines, clock, (line) => {
      const ask = (proof: string): Promise<Result> => line.query(proof)
      return checked(line.query(text, values), isAnswer, ask, () => line.destroy())
    })
  return runnerOf({ askOnce, clock, faults: its, hasRoom: () => !lines.full, close: () => lines.close() })
}

interface Means extends Pick<Runner, 'askOnce' | 'hasRoom' | 'close'> {
  readonly clock: Clock
  readonly faults: Faults
}

function runnerOf({ askOnce, clock, faults: its, hasRoom, close }: Means): Runner {
  const ask = retried(askOnce, isTransient, its, clock)
  return {
    run: (text, values = []) => ask(text, values, anyAnswer),
    async look(text, values = []) {
      const echo = newEcho()
      const { rows } = await ask(text, [echo, ...values], read(echo))
      return rows.map(([, ...row]) => row)
    },
    ask,
    askOnce,
    hasRoom,
    close,
  }
}

/**
 * The reply, once it is certain that it is the one. A reply without an echo, and an error after which the statement
 * would be run again, are proven by a statement that follows on the same connection: were replies out of step, it would
 * get the wrong one.
 */
async function checked(
  sent: Promise<Result>,
  isAnswer: Answers,
  ask: (text: string) => Promise<Result>,
  giveUp: () => void,
): Promise<Result> {
  const inStep = async (): Promise<boolean> => {
    const echo = newEcho()
    // As it stands: preparing it would be a statement more, and its reply another to mistake.
    return (await ask(`SELECT ${echo}`).then(read(echo), () => false)) === true
  }
  const outcome = await sent.catch(async (error: unknown) => {
    if (!isTransient(error) || (await inStep())) throw error
    return undefined
  })
  const said = outcome !== undefined && isAnswer(outcome)
  if (outcome !== undefined && (said === 'unproven' ? await inStep() : said)) return outcome
  giveUp()
  throw mixedUp()
}

/** The pool is the program's: a connection is had for one statement and given back, its settings left alone. */
async function runInPool(
  pool: Pool,
  clock: Clock,
  sql: string,
  values: Values,
  isAnswer: Answers,
): Promise<Result> {
  const connection = await fromPool(
    () => pool.getConnection(),
    (late) => late.release(),
    () => useOf(pool),
    clock,
    faults,
  )
  let ended = false
  const giveUp = (): void => {
    ended = true
    connection.destroy()
  }
  try {
    let header: unknown
    const send = async (text: string, its: Values = []): Promise<Result> => {
      const options = { ...asText, sql: text }
      const sent = its.length === 0 ? connection.query(options) : connection.execute(options, [...its])
      const [result] = await unlessSilent(sent, clock, faults, giveUp)
      header ??= result
      return resultOf(result)
    }
    const answer = await checked(send(sql, values), isAnswer, send, giveUp)
    // Rows do not tell; the answer to the next statement does.
    if (Array.isArray(header)) [header] = await unlessSilent(connection.query('DO 1'), clock, faults, giveUp)
    if (!isUncommitted(header)) return answer
    await unlessSilent(connection.rollback(), clock, faults, giveUp)
  } finally {
    if (!ended) connection.release()
  }
  throw faults.invalid('autocommit is off in your pool, or a transaction was left open in it')
}

/** A lock that is not committed is none, and keeps all others waiting; what is read there may be long out of date. */
function isUncommitted(result: unknown): boolean {
  if (typeof result !== 'object' || result === null || !('serverStatus' in result)) return false
  return (Number(result.serverStatus) & IN_TRANSACTION) !== 0
}

/** The holder as bytes: a pool of the program's may write text in a character set that has less. */
export function bytesOf(request: AcquireRequest): Buffer {
  return Buffer.from(writeHolder(request))
}
