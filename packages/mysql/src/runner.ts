import { writeHolder } from '@locks/core/adapter'
import type { AcquireRequest, Clock } from '@locks/core/adapter'
import { fromPool, onOwnConnections, onProgramPool, retried, unlessSilent } from '@locks/sql'
import type { Room } from '@locks/sql'
import type { Pool } from 'mysql2/promise'
import { newEcho, read } from './echo.ts'
import type { Answers } from './echo.ts'
import { errors } from './errors.ts'
import { asText, MysqlConnection, resultOf } from './connection.ts'
import type { Cell, Result, Values } from './connection.ts'
import type { Settings } from './options.ts'
import { freeIn, promised, useOf } from './pool.ts'

/** Statements here are short: one that waits for longer waits for a transaction of another program. */
export const LOCK_WAIT_S: number = 1
const IN_TRANSACTION = 1

/** Runs single, committed statements, each on any free connection. */
export interface Runner extends Room {
  run(text: string, values?: Values): Promise<Result>
  /** The rows of a statement whose first value is an echo, which its first column returns; it is left out here. */
  look(text: string, values?: Values): Promise<readonly (readonly Cell[])[]>
  /** Rejects the reply to another statement: its connection is closed, and the outcome is unknown. */
  ask(text: string, values: Values, isAnswer: Answers): Promise<Result>
  /** The same, without another try when the server gives up waiting for a row lock. */
  askOnce(text: string, values: Values, isAnswer: Answers): Promise<Result>
}

const anyAnswer: Answers = () => true

/**
 * Settings of connections that the adapter opens. Values that do not fit are refused instead of cut, and assignments
 * happen from left to right. Locking a missing row must not lock the gap around it. No limit of the server ends a hold
 * or a wait; MariaDB and MySQL name those limits differently, and each skips the comment of the other.
 */
export function setUp(lockWaitS: number): readonly string[] {
  const mode = "sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
  return [
    `SET SESSION ${mode}, autocommit = 1, completion_type = 0, innodb_lock_wait_timeout = ${lockWaitS}
/*M! , max_statement_time = 0, idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0,
  idle_write_transaction_timeout = 0 */
/*!50708 , max_execution_time = 0 */`,
    'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE',
  ]
}

export function runnerFor({ pool, config, poolSize, errors: its }: Settings, clock: Clock): Runner {
  const open = (closing: AbortSignal): Promise<MysqlConnection> =>
    MysqlConnection.open(config, setUp(LOCK_WAIT_S), closing)
  const { send: askOnce, ...room } =
    pool === undefined
      ? onOwnConnections({ open, max: poolSize, clock, errors }, runOn)
      : onProgramPool(
          () => freeIn(pool) > 0,
          (...call: Call) => runInPool(promised(pool), clock, ...call),
        )
  const ask = retried(askOnce, its, clock)
  return {
    ...room,
    ask,
    askOnce,
    run: (text, values = []) => ask(text, values, anyAnswer),
    async look(text, values = []) {
      const echo = newEcho()
      const { rows } = await ask(text, [echo, ...values], read(echo))
      return rows.map(([, ...row]) => row)
    },
  }
}

type Call = readonly [text: string, values: Values, isAnswer: Answers]

function runOn(connection: MysqlConnection, ...[text, values, isAnswer]: Call): Promise<Result> {
  const ask = (proof: string): Promise<Result> => connection.query(proof)
  return checked(connection.query(text, values), isAnswer, ask, () => connection.destroy())
}

/**
 * The reply, once it is certain that it belongs to the statement. A reply without an echo, and an error after which the
 * statement would run again, are checked by another statement on the same connection: if replies are out of step, it
 * gets the wrong one.
 */
async function checked(
  sent: Promise<Result>,
  isAnswer: Answers,
  ask: (text: string) => Promise<Result>,
  giveUp: () => void,
): Promise<Result> {
  const inStep = async (): Promise<boolean> => {
    const echo = newEcho()
    // Not prepared: preparing would be one more statement whose reply could be confused.
    return (await ask(`SELECT ${echo}`).then(read(echo), () => false)) === true
  }
  const outcome = await sent.catch(async (error: unknown) => {
    if (!errors.isTransient(error) || (await inStep())) throw error
    return undefined
  })
  const said = outcome !== undefined && isAnswer(outcome)
  if (outcome !== undefined && (said === 'unproven' ? await inStep() : said)) return outcome
  giveUp()
  throw errors.wrongReply()
}

/** Takes a connection of the program's pool for one statement, and does not change its settings. */
async function runInPool(pool: Pool, clock: Clock, ...[sql, values, isAnswer]: Call): Promise<Result> {
  const connection = await fromPool(
    () => pool.getConnection(),
    (late) => late.release(),
    () => useOf(pool),
    clock,
    errors,
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
      const [result] = await unlessSilent(sent, clock, errors, giveUp)
      header ??= result
      return resultOf(result)
    }
    const answer = await checked(send(sql, values), isAnswer, send, giveUp)
    // A reply with rows does not show the state of the transaction; the next reply does.
    if (Array.isArray(header)) [header] = await unlessSilent(connection.query('DO 1'), clock, errors, giveUp)
    if (!isUncommitted(header)) return answer
    await unlessSilent(connection.rollback(), clock, errors, giveUp)
  } finally {
    if (!ended) connection.release()
  }
  throw errors.invalid(
    'autocommit is off in your pool, or a transaction was left open in it, so the lock was not committed; ' +
      'turn autocommit on, and end transactions before you release a connection',
  )
}

/** An uncommitted lock is not held and blocks other clients, and a read in an old transaction is out of date. */
function isUncommitted(result: unknown): boolean {
  if (typeof result !== 'object' || result === null || !('serverStatus' in result)) return false
  return (Number(result.serverStatus) & IN_TRANSACTION) !== 0
}

/** The holder as bytes: the character set of the program's pool may lack some characters. */
export function bytesOf(request: AcquireRequest): Buffer {
  return Buffer.from(writeHolder(request))
}
