import type { Clock, LockError } from '@locks/core/adapter'
import { fromPool, Lines, onAnyLine, retried, unlessSilent } from '@locks/sql'
import type { PoolUse } from '@locks/sql'
import { randomBytes } from 'node:crypto'
import type { Pool } from 'pg'
import {
  faults,
  isOfFailedTransaction,
  isOfItsName,
  isOfOtherDefaults,
  isRefusal,
  isTransient,
} from './errors.ts'
import { Line, send } from './line.ts'
import type { Row, Statement } from './line.ts'
import type { Settings } from './options.ts'
import { isDirect } from './pooler.ts'

/** Runs single, committed statements, each on whatever connection is free. */
export interface Runner {
  run(statement: Statement, values: unknown[]): Promise<readonly Row[]>
  /**
   * The same for a statement that takes a nonce as its last value and returns it as the first column of each row, of
   * which there is at least one; it is left out here. `pg` pairs replies with statements by their order: one that
   * answers another statement ends its connection, and the outcome is not known.
   */
  ask(statement: Statement, values: unknown[]): Promise<readonly [Row, ...Row[]]>
  /** The one row of such a statement, if it says that there is one. That there is none is not proven. */
  find(statement: Statement, values: unknown[]): Promise<Row | undefined>
  /** Whether a statement is sent at once, without waiting for a connection that others use. */
  hasRoom(): boolean
  /** Has a connection ready, as far as that is its business. */
  warm(): Promise<void>
  close(): Promise<void>
}

/** Functions of several statements need this; the defaults of a role or a database may differ. */
const ourDefaults: Statement = {
  name: undefined,
  text: 'SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE',
}

export function runnerFor({ pool, config, listen, poolSize, faults: its }: Settings, clock: Clock): Runner {
  const nonces = nonceMaker()
  const repeated = (run: Run): Pick<Runner, 'run' | 'ask' | 'find'> => {
    const safely = retried(unnamedIfNeeded(run), isTransient, its, clock)
    return {
      run: (statement, values) => safely(statement, values, () => true),
      async ask(statement, values) {
        const nonce = nonces()
        const answers: Answers = (rows) => rows.length > 0 && echo(rows, nonce)
        const [row = [], ...rows] = (await safely(statement, [...values, nonce], answers)).map(withoutEcho)
        return [row, ...rows]
      },
      async find(statement, values) {
        const nonce = nonces()
        const [row] = await safely(statement, [...values, nonce], (rows) => echo(rows, nonce))
        return row && withoutEcho(row)
      },
    }
  }
  if (pool !== undefined) {
    const nothing = (): Promise<void> => Promise.resolve()
    return {
      ...repeated((...call) => runInPool(pool, listen, clock, ...call)),
      hasRoom: () => pool.idleCount > pool.waitingCount,
      warm: nothing,
      close: nothing,
    }
  }
  const open = (closing: AbortSignal): Promise<Line> => Line.open(config, { named: listen, closing })
  const lines = new Lines({ open, max: poolSize, clock, faults })
  return {
    ...repeated((...call) => onAnyLine(lines, clock, (line) => runOn(line, ...call))),
    hasRoom: () => !lines.full,
    warm: async () => lines.give(await lines.take()),
    close: () => lines.close(),
  }
}

type Run = (statement: Statement, values: unknown[], answers: Answers) => Promise<readonly Row[]>

/** Whether these rows are the answer to the statement. */
type Answers = (rows: readonly Row[]) => boolean

/** A pooler in transaction mode mixes up the names of statements: from the first time on, none has one. */
function unnamedIfNeeded(run: Run): Run {
  let named = true
  return async ({ name, text }, ...rest) => {
    try {
      return await run({ name: named ? name : undefined, text }, ...rest)
    } catch (error) {
      if (!isOfItsName(error)) throw error
      named = false
      return run({ name: undefined, text }, ...rest)
    }
  }
}

function nonceMaker(): () => string {
  const prefix = randomBytes(6).toString('hex')
  let count = 0
  return () => `${prefix}.${++count}`
}

function echo(rows: readonly Row[], nonce: string): boolean {
  return rows.every(([first]) => first === nonce)
}

function withoutEcho([, ...row]: Row): Row {
  return row
}

const mixedUp = (): LockError => faults.unavailable('the server answered another statement than the one sent')

async function runOn(
  line: Line,
  statement: Statement,
  values: unknown[],
  answers: Answers,
): Promise<readonly Row[]> {
  const rows = await line.query(statement, values).catch(async (error: unknown) => {
    // Behind a pooler the connection is not ours alone, and neither are its settings.
    if (!isOfOtherDefaults(error) || !(await isDirect(line))) throw error
    await line.query(ourDefaults)
    return line.query(statement, values)
  })
  if (answers(rows)) return rows
  line.destroy()
  throw mixedUp()
}

function useOf({ options, totalCount, idleCount }: Pool): PoolUse {
  const { max } = options
  return { max, full: idleCount === 0 && totalCount >= max }
}

/** The pool is the program's: a connection is had for one statement and given back, its settings left alone. */
async function runInPool(
  pool: Pool,
  named: boolean,
  clock: Clock,
  statement: Statement,
  values: unknown[],
  answers: Answers,
): Promise<readonly Row[]> {
  const client = await fromPool(
    () => pool.connect(),
    (late) => late.release(),
    () => useOf(pool),
    clock,
    faults,
  )
  const { connection }: Partial<typeof client> = client
  if (connection === undefined) {
    client.release()
    throw faults.invalid('pool must be of pg itself: pg-native does not give values as text')
  }
  // The statement under way is told of the same error.
  const told = (): void => undefined
  let committed = true
  let useless = false
  const ready = (message: { readonly status?: unknown }): void => void (committed = message.status === 'I')
  client.on('error', told)
  connection.on('readyForQuery', ready)
  try {
    const rows = await unlessSilent(send(client, statement, values, named), clock, faults, () => undefined)
    useless = !answers(rows)
    if (useless) throw mixedUp()
    if (committed) return rows
  } catch (error) {
    useless ||= !isRefusal(error)
    // The server tells what became of the transaction after the error, and pg does not wait for that.
    if (isOfFailedTransaction(error)) committed = false
    if (committed) throw error
  } finally {
    connection.off('readyForQuery', ready)
    client.off('error', told)
    // Ended with its connection, a transaction is rolled back.
    client.release(useless || !committed)
  }
  // A lock that is not committed is none, and keeps everybody waiting.
  throw faults.invalid('a transaction was left open in your pool')
}
