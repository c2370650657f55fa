import type { Holder } from '@locks/core/adapter'
import { holderFrom } from '@locks/sql'
import type { HoldInfo, SessionDriver } from '@locks/sql'
import { createHash, randomBytes } from 'node:crypto'
import { newEcho, numberIn, read, wrote } from './echo.ts'
import { errors, rowLocked } from './errors.ts'
import type { Cell, MysqlConnection, Values } from './connection.ts'
import type { Tables, Settings } from './options.ts'
import { bytesOf, LOCK_WAIT_S } from './runner.ts'
import type { Runner } from './runner.ts'
import { namesOf } from './schema.ts'
import { echoing, epochMs, nextFence, now, once } from './sql.ts'

/** The wait was killed, timed out or was chosen by the deadlock detector. */
const worthAnotherTry = new Set([1317, 1205, 1213, 1969, 3024, 3058])
/** The server ended the connection and ran no more statements: killed, silent beyond wait_timeout, shut down. */
const ends = new Set([1927, 4031, 1053])
const NO_SUCH_THREAD = 1094

export type SessionStrategy = 'row' | 'named'

/** What the server knows of a living hold. */
interface LiveHold {
  readonly name: string
  readonly holder: Holder
  readonly attemptId: string
  readonly key: string
}

/** A lock is a row lock or a named lock of a connection. The key of a hold is another named lock of it. */
export function sessionDriver(
  settings: Settings,
  strategy: SessionStrategy,
  runner: Runner,
): SessionDriver<MysqlConnection> {
  const sql = statementsOf(settings, strategy)
  const lockName = (name: string): string =>
    lockNameOf(settings, settings.config.database ?? '', strategy, name)

  /** Locks the name and the key. Resolves with whether that succeeded. */
  async function lock(
    connection: MysqlConnection,
    text: string,
    { request: { name }, key }: HoldInfo,
  ): Promise<boolean> {
    if (sql.begin !== undefined) {
      const row = await connection.find(text, [key, Buffer.from(name)])
      return row !== undefined && isLocked(row)
    }
    if (!isLocked(await connection.ask(text, [lockName(name)]))) return false
    if (isLocked(await connection.ask(getKey, [key]))) return true
    throw errors.unavailable('the key of this hold is in use, so nothing is held; try again')
  }

  /** NULL from GET_LOCK means neither locked nor busy, but failed. */
  function isLocked([got, readOnly]: readonly Cell[]): boolean {
    if (got === undefined)
      throw errors.unavailable('GET_LOCK failed on the server, so nothing is held; try again')
    if (got === '1') assertPrimary(readOnly)
    return got === '1'
  }

  /**
   * A primary that becomes a replica keeps its connections, and what they have locked. Another server grants the same
   * names by then.
   */
  function assertPrimary(readOnly: Cell): void {
    if (!isOff(readOnly))
      throw errors.unavailable(
        'read_only is on: a replica does not know who holds a lock, so none is held there; connect to the primary',
      )
  }

  /** The server counts silence in whole seconds; rounded up, so that a holder is never ended early. */
  async function allowSilence(connection: MysqlConnection, silenceMs: number): Promise<void> {
    const seconds = Math.ceil(silenceMs / 1_000)
    if (connection.idleLimitMs === seconds * 1_000) return
    await connection.query(`SET SESSION wait_timeout = ${seconds}`)
    connection.idleLimitMs = seconds * 1_000
  }

  /** Runs a KILL. A connection that is gone already is fine. */
  async function killed(text: string): Promise<void> {
    await runner.run(text).catch((error: unknown) => {
      if (errors.codeOf(error) !== NO_SUCH_THREAD) throw error
    })
  }

  /** Only the server that has a hold knows it: to a replica every name is free. */
  async function holds(text: string, values?: Values): Promise<readonly LiveHold[]> {
    const rows = await runner.look(text, values)
    const found = rows.map(([, ...about]) => liveHold(about)).filter((hold) => hold !== undefined)
    if (found.length === 0 && !isOff(rows[0]?.[0]))
      throw errors.unavailable(
        'read_only is on: a replica does not know who holds a lock; connect to the primary',
      )
    return found
  }

  async function holdOf(name: string): Promise<LiveHold | undefined> {
    return (await holds(sql.inspect, [Buffer.from(name)]))[0]
  }

  /**
   * A transaction of a program that holds the name by itself, if any: from its grant to its end it has locked the
   * counter, which others lock for a moment. Looked for on another connection, which keeps no lock of it.
   */
  async function transactionOn(name: string): Promise<Holder | undefined> {
    if (sql.counter === undefined) return undefined
    const echo = newEcho()
    try {
      await runner.askOnce(sql.counter, [echo, Buffer.from(name)], read(echo))
      return undefined
    } catch (error) {
      if (!errors.has(error, rowLocked)) throw error
      return { owner: 'a transaction' }
    }
  }

  return {
    newKey: () => `locks:${randomBytes(12).toString('hex')}`,

    async holderOf(name) {
      const hold = await holdOf(name)
      if (hold !== undefined) return hold
      const holder = await transactionOn(name)
      return holder && { attemptId: '', holder }
    },

    async tryLock(connection, hold, silenceMs) {
      await allowSilence(connection, silenceMs)
      if (sql.begin !== undefined) await connection.query(sql.begin)
      if (await lock(connection, sql.tryLock, hold)) return 'locked'
      const name = Buffer.from(hold.request.name)
      const [there, ...about] = await connection.ask(sql.look, [name, name])
      const holder = liveHold(about)?.holder ?? (await transactionOn(hold.request.name))
      return there === '1' || holder !== undefined ? { holder } : 'missing'
    },

    /**
     * An INSERT of an existing row waits for the session that has locked it, however long. So one session at a time
     * makes rows, and looks first: on a connection with our isolation level, where a look takes no lock.
     */
    async make(connection, { request }) {
      if (sql.makeRow === undefined) return
      const [got] = await connection.ask(sql.makeRow.lock, [lockName(request.name)])
      if (got !== '1')
        throw errors.unavailable('timed out making the row of the lock, so nothing is held; try again')
      const name = Buffer.from(request.name)
      // MySQL has no such limit for one statement. A transaction may have made the row, and hold it for long.
      await connection.query(waiting(LOCK_WAIT_S))
      await connection.query(sql.makeRow.insert, [name, name]).catch((error: unknown) => {
        if (!errors.has(error, rowLocked)) throw error
      })
      await connection.query(waiting(FOREVER_S))
      await connection.query('COMMIT')
    },

    queue(connection, hold) {
      // `DO 1` opens the connection on which a wait is cancelled, so that cancelling does not take long.
      return { queued: runner.run('DO 1'), locked: lock(connection, sql.lock, hold) }
    },

    async mint(_, { request, key }) {
      const echo = newEcho()
      const about = [request.attemptId, bytesOf(request), key, key]
      const values = [Buffer.from(request.name), echo, echo, ...about, echo, echo, echo, echo]
      const fence = numberIn(await runner.ask(sql.mint, values, wrote(echo)))
      return fence === 0n ? undefined : fence
    },

    async probe(connection, silenceMs) {
      await allowSilence(connection, silenceMs)
      const [readOnly] = await connection.ask(showLife)
      assertPrimary(readOnly)
    },

    async free(connection) {
      if (sql.begin !== undefined) await connection.query('ROLLBACK')
      const [released, readOnly] = await connection.ask(releaseLocks)
      return Number(released) === sql.locks && isOff(readOnly)
    },

    cancel: ({ thread }) => killed(`KILL QUERY ${thread}`),

    async isThere({ thread }) {
      return (await runner.look(sql.isThere, [thread])).length > 0
    },

    // A killed connection rolls its transaction back first and gives up its key last.
    async breakHold(name, attemptId) {
      const hold = await holdOf(name)
      if (hold?.attemptId !== attemptId) return false
      await killed(killHolder(hold.key))
      return true
    },

    async list(limit) {
      const found = await holds(sql.list + String(limit))
      return found.map(({ name, holder }) => ({ name, held: true, holder }))
    },

    saysEnded: (error) => errors.has(error, ends),
    isWorthAnotherTry: (error) => errors.has(error, worthAnotherTry),
  }
}

function liveHold([name, fence, by, since, attemptId, key]: readonly Cell[]): LiveHold | undefined {
  const holder = holderFrom(by, fence, since)
  if (name === undefined || attemptId === undefined || key === undefined || holder === undefined)
    return undefined
  return { name, holder, attemptId, key }
}

/** The setting is a number, or a word where it has more than two values. */
function isOff(setting: Cell): boolean {
  return setting === '0' || setting === 'OFF'
}

/** A wait ends when it is granted, killed or withdrawn, not by a limit of the server. */
export const FOREVER_S = 1_000_000

const waiting = (seconds: number): string => `SET SESSION innodb_lock_wait_timeout = ${seconds}`

/**
 * Which connection has the key of a hold; NULL when none does. The key is a named lock of the holding connection, so
 * any connection can see whether that hold still lives. MySQL raises an error for a NULL name.
 */
const ownerOf = (hold: string): string => `IS_USED_LOCK(COALESCE(${hold}, 'none'))`

function statementsOf(tables: Tables, strategy: SessionStrategy) {
  const to = namesOf(tables)
  const holders = strategy === 'row' ? to.holders : to.named
  const next = strategy === 'row' ? nextFence : (last: string): string => `${last} + 1`
  const lives = `${ownerOf('h.hold')} IS NOT NULL`
  const state = `h.name, h.fence, h.holder, ${epochMs('h.since')}, h.attempt, h.hold`
  const found = `SELECT ?, ${READ_ONLY}, ${state} FROM ${once}`
  // Contains a column, so that it is evaluated after the row is locked, not before.
  const mine = `${ownerOf(`CONCAT(LEFT(${holders}.name, 0), VALUES(hold))`)} IS NOT NULL`
  const whenMine = (column: string): string =>
    `${column} = IF(${mine}, VALUES(${column}), ${holders}.${column})`
  const shared = {
    // Only for a living hold: one that ended may have a successor, whose fence may be minted already.
    mint: `INSERT INTO ${holders} (name, fence, attempt, holder, since, hold)
SELECT ?, ${echoing(next('p.fence'))}, ?, ?, ${now}, ? FROM ${to.pruned} p
WHERE p.id = 1 AND ${ownerOf('?')} IS NOT NULL LOCK IN SHARE MODE
ON DUPLICATE KEY UPDATE
  fence = IF(${mine}, ${echoing(next(`${holders}.fence`))}, ${holders}.fence + ${echoing('0')}),
  ${['attempt', 'holder', 'since', 'hold'].map(whenMine).join(',\n  ')}`,
    inspect: `${found} LEFT JOIN ${holders} h ON h.name = ? AND ${lives}`,
    list: `${found} LEFT JOIN ${holders} h ON ${lives} LIMIT `,
    isThere: 'SELECT ?, 1 FROM information_schema.PROCESSLIST WHERE ID = ?',
  }
  const look = (there: string): string =>
    `SELECT ?, ${there}, ${state} FROM ${once} LEFT JOIN ${holders} h ON h.name = ? AND ${lives}`
  if (strategy === 'named')
    return {
      ...shared,
      tryLock: getKey,
      lock: `SELECT ?, GET_LOCK(?, ${FOREVER_S}), ${READ_ONLY}`,
      begin: undefined,
      makeRow: undefined,
      counter: undefined,
      look: look('? IS NOT NULL'),
      locks: 2,
    }
  const lock = `${getKey} FROM ${to.rows} WHERE name = ? FOR UPDATE`
  return {
    ...shared,
    tryLock: `${lock} SKIP LOCKED`,
    lock,
    begin: 'START TRANSACTION',
    makeRow: {
      lock: 'SELECT ?, GET_LOCK(?, 5)',
      insert: `INSERT INTO ${to.rows} (name) SELECT ? FROM DUAL
WHERE NOT EXISTS (SELECT 1 FROM ${to.rows} r WHERE r.name = ?)`,
    },
    // A shared lock, so concurrent looks do not block each other. MySQL accepts NOWAIT only in the new syntax.
    counter: `SELECT ? FROM ${to.holders} WHERE name = ?
/*M! LOCK IN SHARE MODE NOWAIT */ /*!80000 FOR SHARE NOWAIT */`,
    look: look(`EXISTS (SELECT 1 FROM ${to.rows} r WHERE r.name = ?)`),
    locks: 1,
  }
}

const READ_ONLY = '@@GLOBAL.read_only'
/** Marks a hold as living. */
const getKey = `SELECT ?, GET_LOCK(?, 0), ${READ_ONLY}`
/** Returns how many there were. */
const releaseLocks = `SELECT ?, RELEASE_ALL_LOCKS(), ${READ_ONLY}`
const showLife = `SELECT ?, ${READ_ONLY}`

/**
 * Ends the connection that has the key of a hold right now. With its number, asked for before, it might be a connection
 * that serves another hold by then. KILL takes no parameters, so the form of the key is checked.
 */
function killHolder(key: string): string {
  if (!/^locks:[0-9a-f]{24}$/.test(key)) throw new TypeError('not the key of a hold')
  return `KILL CONNECTION IS_USED_LOCK('${key}')`
}

/**
 * Names of GET_LOCK have at most 64 characters on MySQL, ignore case, and are shared by all databases. On some servers
 * names of tables ignore case too.
 */
function lockNameOf({ schema, table }: Tables, database: string, use: string, name: string): string {
  const space = `${use}\0${schema ?? database}.${table}`.toLowerCase()
  return createHash('sha256').update(`${space}\0${name}`).digest('hex').slice(0, 60)
}
