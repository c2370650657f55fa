import { strategyError } from '@locks/sql'
import type { StrategyRecord } from '@locks/sql'
import { lockOf } from './advisory-sql.ts'
import type { PostgresConnection } from './connection.ts'
import { errors } from './errors.ts'
import { holderTable } from './holders.ts'
import type { HolderTable } from './holders.ts'
import { isShared, transactionsKeyOf, unfencedKeyOf } from './name-key.ts'
import type { Tables, Settings } from './options.ts'
import type { Runner } from './runner.ts'
import { living, namesOf, onPrimary, statement } from './sql.ts'
import { readStrategy, strategyRecord } from './strategy.ts'

/** Holders without a table: the server knows which locks are held, and by which backend. */
export function unfencedHolders(tables: Tables, runner: Runner): HolderTable {
  const fenced = holderTable(tables, runner)
  const held = statement(`WITH ${living} SELECT $2::text, max(living.pid) FROM living
WHERE living.key = $1::bigint AND ${onPrimary}`)
  return {
    isAlive: (key) => fenced.isAlive(key),
    isThere: (pid) => fenced.isThere(pid),
    cancel: (pid) => fenced.cancel(pid),
    mint: () => Promise.resolve(0n),
    async holderOf(name) {
      const [[pid]] = await runner.ask(held, [lockOf(tables, name)])
      return pid === null ? undefined : { attemptId: '', holder: { owner: `backend ${pid}` } }
    },
    list: () => Promise.resolve([]),
    // Which connection a lost hold was on is not recorded. The server ends it by itself.
    breakHold: () => Promise.resolve(false),
  }
}

/** The record of the strategy, if there is a table for it. A client without fences writes none. */
export function unfencedRecord(settings: Settings, runner: Runner): StrategyRecord {
  const record = strategyRecord(settings, runner)
  const read = (): Promise<string | undefined> => ifRecorded(() => record.read())
  return {
    ...record,
    read: async () => (await read()) ?? 'advisory',
    write: () => Promise.resolve(),
    // It uses no table.
    foreign: () => Promise.resolve(undefined),
  }
}

/** Undefined where there is no table. */
export async function ifRecorded<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (!errors.isMissing(error)) throw error
    return undefined
  }
}

type Open = (closing: AbortSignal) => Promise<PostgresConnection>

/**
 * While such a connection lives, clients of other strategies are refused: nothing is recorded. It shares the key of
 * the tables before it looks for others: a client that records a strategy has the key alone meanwhile.
 */
export function keepingTables(settings: Settings, open: Open): Open {
  const share = statement(
    `SELECT $1::text, pg_try_advisory_lock_shared(${unfencedKeyOf(settings)}) WHERE ${onPrimary}`,
  )
  const look = statement(`SELECT $1::text, ${isShared(transactionsKeyOf(settings))}`)
  const read = readStrategy(settings)

  async function keep(connection: PostgresConnection): Promise<void> {
    const [shared] = await connection.ask(share)
    if (shared !== 't')
      throw errors.unavailable(
        'another client is recording the strategy of these locks, so none can be acquired now; try again',
      )
    const [inTransactions] = await connection.ask(look)
    if (inTransactions === 't')
      throw errors.unavailable(
        'a transaction holds a lock of these tables without strategy advisory, so none can be acquired now; try again',
      )
    const owner = (await ifRecorded(() => connection.ask(read)))?.[0] ?? 'advisory'
    if (owner === 'advisory') return
    throw strategyError(errors, namesOf(settings), 'advisory', owner)
  }

  return async (closing) => {
    const connection = await open(closing)
    try {
      await connection.promptly(() => keep(connection))
      return connection
    } catch (error) {
      connection.destroy()
      throw error
    }
  }
}
