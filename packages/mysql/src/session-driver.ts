import type { LockState } from '@locks/core/adapter'
import { readHolder } from '@locks/sql'
import type { HoldInfo, SessionDriver } from '@locks/sql'
import { randomBytes } from 'node:crypto'
import { newEcho, numberIn, wrote } from './echo.ts'
import { errnoOf, faults } from './errors.ts'
import type { Cell, Line, Values } from './line.ts'
import { bytesOf } from './runner.ts'
import type { Runner } from './runner.ts'
import { getKey, killHolder, releaseLocks, showLife } from './sql.ts'
import type { SessionStatements } from './sql.ts'

/** The wait ended without a grant, but nothing is wrong: killed, timed out, chosen by the deadlock detector. */
const worthAnotherTry = new Set([1317, 1205, 1213, 1969, 3024, 3058])
/** By the server's word: killed, silent for longer than wait_timeout, shut down. It took no more statements. */
const ends = new Set([1927, 4031, 1053])
const NO_SUCH_THREAD = 1094

/** What is known of a hold that lives. */
export interface LiveHold {
  readonly attemptId: string
  readonly key: string
  readonly state: LockState & Required<Pick<LockState, 'holder'>>
}

export interface MysqlSessionDriver extends SessionDriver<Line> {
  holdOf(name: string): Promise<LiveHold | undefined>
  list(limit: number): Promise<readonly LockState[]>
  /** Has the server end the connection that has this key, if one has. It takes a moment to be gone. */
  kill(key: string): Promise<void>
}

/** A lock is a row or a named lock of a connection, and the key of a hold another named lock of it. */
export function sessionDriver(
  sql: SessionStatements,
  runner: Runner,
  lockName: (name: string) => string,
): MysqlSessionDriver {
  /** Whether the name is locked now, and marked with the key. */
  async function lock(line: Line, text: string, { request: { name }, key }: HoldInfo): Promise<boolean> {
    if (sql.begin !== undefined) {
      const row = await line.find(text, [key, Buffer.from(name)])
      return row !== undefined && isLocked(row)
    }
    if (!isLocked(await line.ask(text, [lockName(name)]))) return false
    if (isLocked(await line.ask(getKey, [key]))) return true
    throw faults.unavailable('the key of this hold is in use')
  }

  /** NULL is neither "yours" nor "somebody else's". */
  function isLocked([got]: readonly Cell[]): boolean {
    if (got === undefined) throw faults.unavailable('GET_LOCK failed')
    return got === '1'
  }

  /** Ends a silent connection after whole seconds, never before its time. */
  async function allowSilence(line: Line, silenceMs: number): Promise<void> {
    const seconds = Math.ceil(silenceMs / 1_000)
    if (line.waitTimeoutS === seconds) return
    await line.query(`SET SESSION wait_timeout = ${seconds}`)
    line.waitTimeoutS = seconds
  }

  /** A connection that is gone needs no killing. */
  async function killed(text: string): Promise<void> {
    await runner.run(text).catch((error: unknown) => {
      if (errnoOf(error) !== NO_SUCH_THREAD) throw error
    })
  }

  /** A hold is known to the server that has it and to no other: a replica takes every name for free. */
  async function holds(text: string, values?: Values): Promise<readonly LiveHold[]> {
    const rows = await runner.look(text, values)
    const found = rows.map(([, ...about]) => liveHold(about)).filter((hold) => hold !== undefined)
    if (found.length === 0 && rows[0]?.[0] !== '0')
      throw faults.unavailable('read_only is on: this may be a replica, which does not know who holds')
    return found
  }

  async function holdOf(name: string): Promise<LiveHold | undefined> {
    return (await holds(sql.inspect, [Buffer.from(name)]))[0]
  }

  return {
    newKey: () => `locks:${randomBytes(12).toString('hex')}`,
    holdOf,
    kill: (key) => killed(killHolder(key)),

    async tryLock(line, hold, silenceMs) {
      await allowSilence(line, silenceMs)
      if (sql.begin !== undefined) await line.query(sql.begin)
      if (await lock(line, sql.tryLock, hold)) return 'locked'
      const name = Buffer.from(hold.request.name)
      const [there, ...about] = await line.ask(sql.look, [name, name])
      return there === '1' ? { holder: liveHold(about)?.state.holder } : 'missing'
    },

    /**
     * An INSERT of a row that is there waits for whoever has locked it, however long. So rows are made by one at
     * a time, who looks first: on a connection whose isolation level is ours, where a look takes no lock.
     */
    async make(line, { request }) {
      if (sql.makeRow === undefined) return
      const [got] = await line.ask(sql.makeRow.lock, [lockName(request.name)])
      if (got !== '1') throw faults.unavailable('the row of the lock cannot be made')
      const name = Buffer.from(request.name)
      await line.query(sql.makeRow.insert, [name, name])
      await line.query('COMMIT')
    },

    queue(line, hold) {
      // Sent at once. A connection to end the wait from must not have to be opened then.
      return { queued: runner.run('DO 1'), locked: lock(line, sql.lock, hold) }
    },

    async mint(_line, { request, key }) {
      const echo = newEcho()
      const about = [request.attemptId, bytesOf(request), key, key]
      const values = [Buffer.from(request.name), echo, echo, ...about, echo, echo, echo, echo]
      const fence = numberIn(await runner.ask(sql.mint, values, wrote(echo)))
      return fence === 0n ? undefined : fence
    },

    async probe(line, silenceMs) {
      await allowSilence(line, silenceMs)
      await line.ask(showLife)
    },

    async free(line) {
      if (sql.begin !== undefined) await line.query('ROLLBACK')
      const [released] = await line.ask(releaseLocks)
      return Number(released) === sql.locks
    },

    cancel: ({ thread }) => killed(`KILL QUERY ${thread}`),

    async isThere({ thread }) {
      return (await runner.look(sql.isThere, [thread])).length > 0
    },

    async holderOf(name) {
      const hold = await holdOf(name)
      return hold && { attemptId: hold.attemptId, holder: hold.state.holder }
    },

    async evict(name, attemptId) {
      const hold = await holdOf(name)
      if (hold?.attemptId === attemptId) await killed(killHolder(hold.key))
    },

    async list(limit) {
      return (await holds(sql.list + String(limit))).map(({ state }) => state)
    },

    saysEnded: (error) => ends.has(errnoOf(error) ?? 0),
    isWorthAnotherTry: (error) => worthAnotherTry.has(errnoOf(error) ?? 0),
  }
}

function liveHold([name, fence, by, since, attemptId, key]: readonly Cell[]): LiveHold | undefined {
  const holder = readHolder(by, fence, since)
  if (name === undefined || attemptId === undefined || key === undefined || holder === undefined)
    return undefined
  return { attemptId, key, state: { name, held: true, holder } }
}
