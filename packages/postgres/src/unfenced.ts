import { otherStrategy } from '@locks/sql'
import type { StrategyRecord } from '@locks/sql'
import { lockOf } from './advisory-sql.ts'
import type { PostgresConnection } from './connection.ts'
import { errors } from './errors.ts'
import { holderTable } from './holders.ts'
import type { HolderTable } from './holders.ts'
import { isShared, transactionsKeyOf, unfencedKeyOf } from './name-key.ts'
import type { Place, Settings } from './options.ts'
import type { Runner } from './runner.ts'
import { living, namesOf, onPrimary, statement } from './sql.ts'
import { readStrategy, strategyRecord } from './strategy.ts'

/** Holders without a table: the server knows which locks are held, and by which backend. */
export function unfencedHolders(place: Place, runner: Runner): HolderTable {
  const fenced = holderTable(place, runner)
  const held = statement(`WITH ${living} SELECT $2::text, max(living.pid) FROM living
WHERE living.key = $1::bigint AND ${onPrimary}`)
  return {
    isAlive: (key) => fenced.isAlive(key),
    isThere: (pid) => fenced.isThere(pid),
    cancel: (pid) => fenced.cancel(pid),
    mint: () => Promise.resolve(0n),
    async holderOf(name) {
      const [[pid]] = await runner.ask(held, [lockOf(place, name)])
      return pid === null ? undefined : { attemptId: '', holder: { owner: `backend ${pid}` } }
    },
    list: () => Promise.resolve([]),
    // Which connection a lost hold was on is not recorded. The server ends it by itself.
    evict: () => Promise.resolve(false),
  }
}

/** The record of the place, if there is a table for it. A client without fences writes none. */
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
 * Connections that keep clients of other strategies out of the place as long as they live, since nothing is recorded.
 * First they share its key, then they look for others: a client that records a strategy has the key alone meanwhile.
 */
export function keepingPlace(settings: Settings, open: Open): Open {
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
        'a transaction holds a lock of this place without strategy advisory, so none can be acquired now; try again',
      )
    const owner = (await ifRecorded(() => connection.ask(read)))?.[0] ?? 'advisory'
    if (owner === 'advisory') return
    const { locks, strategy: table } = namesOf(settings)
    const { message, advice } = otherStrategy({ locks, table }, 'advisory', owner)
    throw errors.invalid(`${message}; ${advice}`)
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
