import { findingsOf, isLockError, verdicts } from '@locks/core/adapter'
import type { Clock, Finding, Verdict } from '@locks/core/adapter'
import { foreignVerdict } from '@locks/sql'
import type { Leftovers } from '@locks/sql'
import { errors } from './errors.ts'
import { checks } from './findings.ts'
import type { Server } from './findings.ts'
import type { Settings } from './options.ts'
import type { Runner } from './runner.ts'
import { namesOf } from './schema.ts'
import { now } from './sql.ts'
import { strategyRecord } from './strategy.ts'

const { ok, warning } = verdicts

/** A finding counts at most this many rows. */
const MOST_LEFTOVERS = 1_000_000
const ROUND_TRIPS = 3

/** What the server and its settings mean for locks. Changes nothing. */
export async function diagnose(
  settings: Settings,
  runner: Runner,
  clock: Clock,
): Promise<readonly Finding[]> {
  const variables = new Map(
    (await runner.run('SHOW GLOBAL VARIABLES')).rows.map(([name = '', text = '']) => [name, text]),
  )
  const connected = await runner.run("SHOW GLOBAL STATUS LIKE 'Threads_connected'")
  const session = await runner.run('SELECT @@SESSION.sql_mode, @@SESSION.autocommit')
  const [sqlMode = '', autocommit] = session.rows[0] ?? []
  const tables = await tablesOf(settings, runner)
  const record = tables.level === 'ok' ? strategyRecord(settings, runner) : undefined
  const server: Server = {
    value: (name) => variables.get(name) ?? '',
    connected: Number(connected.rows[0]?.[1]),
    sqlMode,
    autocommit: autocommit === '1',
    roundTripMs: await roundTrip(runner, clock),
    tables,
    record,
    owner: await record?.read(),
    leftovers: record && (await leftoversOf(settings, runner)),
  }
  return findingsOf(checks, server, settings)
}

/** Tests every privilege that locks need, with statements that change no row. */
async function tablesOf(settings: Settings, runner: Runner): Promise<Verdict> {
  const { strategy } = settings
  const to = namesOf(settings)
  const counter = { 'unique-key': to.locks, row: to.holders, named: to.named }[strategy]
  const written = strategy === 'row' ? [counter, to.rows] : [counter]
  try {
    const record = strategyRecord(settings, runner)
    const foreign = await record.foreign()
    if (foreign !== undefined) {
      const owner = await record.read().catch((error: unknown) => {
        if (!errors.isOfOtherTables(error)) throw error
      })
      return foreignVerdict('@locks/mysql', foreign, owner === strategy)
    }
    const floor = await runner.run(`SELECT fence FROM ${to.pruned} WHERE id = 1 LOCK IN SHARE MODE`)
    if (floor.rows.length === 0)
      return warning(`${to.pruned} is empty: no lock can be acquired`, 'run migrate()')
    for (const table of written) {
      await runner.run(`INSERT INTO ${table} SELECT * FROM ${table} WHERE 1 = 0`)
      await runner.run(`UPDATE ${table} SET name = name WHERE 1 = 0`)
    }
    await runner.run(`INSERT INTO ${to.strategy} SELECT * FROM ${to.strategy} WHERE 1 = 0`)
    return ok(`the tables of ${strategy} exist and can be written`)
  } catch (error) {
    // A refusal of the server or the adapter is a finding; an outage is not.
    if (typeof errors.codeOf(error) !== 'number' && !isLockError(error, 'LOCK_INVALID_ARGUMENT')) throw error
    const found = error instanceof Error ? error.message.replaceAll(/\s+/g, ' ') : String(error)
    return warning(found, 'run migrate(), and let the user read and write its tables')
  }
}

async function leftoversOf(settings: Settings, runner: Runner): Promise<Leftovers> {
  const to = namesOf(settings)
  const [table, isFree] = {
    'unique-key': [to.locks, `attempt IS NULL OR blocked_until < ${now}`],
    row: [to.holders, 'IS_USED_LOCK(hold) IS NULL'],
    named: [to.named, 'IS_USED_LOCK(hold) IS NULL'],
  }[settings.strategy]
  const kept = `SELECT since FROM ${table} WHERE ${isFree} LIMIT ${MOST_LEFTOVERS}`
  const [[names, oldestMs] = []] = await runner.look(
    `SELECT ?, COUNT(*), TIMESTAMPDIFF(MICROSECOND, MIN(k.since), ${now}) / 1000 FROM (${kept}) k`,
  )
  return { names: Number(names), oldestMs: Number(oldestMs ?? 0) }
}

async function roundTrip(runner: Runner, clock: Clock): Promise<number> {
  const times: number[] = []
  for (let n = 0; n < ROUND_TRIPS; n += 1) {
    const before = clock.now()
    await runner.run('SELECT 1')
    times.push(clock.now() - before)
  }
  return Math.min(...times)
}
