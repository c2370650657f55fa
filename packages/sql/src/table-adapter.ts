import { inOneLine, Upkeep } from '@locks/core/adapter'
import type { Adapter, Capabilities, Clock, LockError } from '@locks/core/adapter'
import type { SqlErrors } from './errors.ts'
import { creatingTables } from './first-use.ts'
import type { TableCreation } from './first-use.ts'

/** Which strategy the locks of one set of tables belong to, as stored on the server. */
export interface StrategyRecord {
  /** Quoted names of the tables of the locks and of this record, for messages. */
  readonly locks: string
  readonly table: string
  /** Undefined when no strategy has been used there yet. */
  read(): Promise<string | undefined>
  /** A table of another program that has one of our names. */
  foreign(): Promise<string | undefined>
  /** Records the strategy if none is recorded. */
  write(strategy: string): Promise<unknown>
  /** Opens what the first attempt needs, while the record is read. The attempt meets the same failure. */
  prepare?(): Promise<unknown>
}

/** Why a strategy is refused, and what to do about it. */
export function otherStrategy(
  { locks, table }: Pick<StrategyRecord, 'locks' | 'table'>,
  strategy: string,
  owner: string,
): { readonly message: string; readonly advice: string } {
  return {
    message:
      `the locks of ${locks} belong to strategy ${owner}, and this client uses ${strategy}: ` +
      'they would not exclude each other, so this client gets no lock',
    advice:
      `set strategy to ${owner}, or give this client another table (option table); ` +
      `to change the strategy, close all clients that use ${owner} and delete the row in ${table}`,
  }
}

/** What the adapter of any strategy needs around its locks. */
export interface TableUse {
  readonly strategy: string
  readonly record: StrategyRecord
  /** Undefined where the program migrates by itself. */
  readonly creation: TableCreation | undefined
  readonly fenceIdleMs: number
  readonly errors: SqlErrors
}

/** The error for that, before anything is locked. The names are those of a set of tables. */
export function strategyError(
  { invalid }: Pick<SqlErrors, 'invalid'>,
  { locks, strategy: table }: { readonly locks: string; readonly strategy: string },
  strategy: string,
  owner: string,
): LockError {
  return invalid(inOneLine(otherStrategy({ locks, table }, strategy, owner)))
}

/**
 * An adapter that prunes idle names after its releases, and has a strategy. Strategies store the same name in different
 * tables, so each of them would grant it. The first strategy that acquires a lock owns the tables; the others are
 * refused. A client reads the record before its first call, and not again. If that finds no tables, they are created:
 * by an acquire only, since other calls change nothing.
 */
export function tableAdapter<C extends Capabilities>(
  adapter: Adapter<C> & Required<Pick<Adapter<C>, 'list' | 'break' | 'prune' | 'close'>>,
  { strategy, record, creation, fenceIdleMs, errors }: TableUse,
  clock: Clock,
): Adapter<C> {
  const { invalid, unavailable } = errors
  const upkeep = new Upkeep(clock, fenceIdleMs, () => adapter.prune(fenceIdleMs))
  const adopt = adapter.adopt?.bind(adapter)
  const withdraw = adapter.withdraw?.bind(adapter)
  let ours = false
  let claiming: Promise<void> | undefined
  const closing = new AbortController()
  let creating: Promise<unknown> | undefined
  const creatingHere = creation && {
    create: () => {
      const created = creation.create(closing.signal)
      // The acquire reports its failure.
      creating = created.catch(() => undefined)
      return created
    },
    sql: () => creation.sql(),
  }

  /** Before anything is written. */
  async function assertNotForeign(): Promise<void> {
    const foreign = await record.foreign()
    if (foreign !== undefined) throw errors.notOurs(foreign)
  }

  /** Whether the tables are ours already. Rejects when they belong to another strategy, or to another program. */
  async function look(): Promise<boolean> {
    const owner = await record.read().catch(async (error: unknown) => {
      if (errors.isOfOtherTables(error)) await assertNotForeign()
      throw error
    })
    if (owner === strategy) return (ours = true)
    await assertNotForeign()
    if (owner === undefined) return false
    throw invalid(inOneLine(otherStrategy(record, strategy, owner)))
  }

  async function claim(): Promise<void> {
    const [known] = await Promise.all([
      creatingTables(look, creatingHere, errors),
      record.prepare?.().catch(() => undefined),
    ])
    if (known) return
    // Of two clients that write at once, one succeeds; both then read the same.
    await record.write(strategy)
    if (!(await look()))
      throw unavailable(
        `the strategy could not be recorded in ${record.table}, so no lock was acquired: a transaction that called ` +
          'lockInTransaction holds a name there; try again when it has ended',
      )
  }

  async function owned<T>(call: () => Promise<T>): Promise<T> {
    if (!ours) await (claiming ??= claim().finally(() => (claiming = undefined)))
    return call()
  }

  /** For calls that only read: claims nothing, and does not report a name as free that another strategy holds. */
  async function looked<T>(call: () => Promise<T>): Promise<T> {
    if (!ours) await look()
    return call()
  }

  return {
    ...adapter,
    attempt: (request) => owned(() => adapter.attempt(request)),
    ...(adopt && { adopt: (from, request) => owned(() => adopt(from, request)) }),
    // Until the place is ours no attempt was sent.
    ...(withdraw && { withdraw: async (request) => (ours ? withdraw(request) : undefined) }),
    inspect: (name) => looked(() => adapter.inspect(name)),
    list: (limit) => looked(() => adapter.list(limit)),
    break: (name, holder) => looked(() => adapter.break(name, holder)),

    async prune(...call) {
      if (!ours) await assertNotForeign()
      return adapter.prune(...call)
    },

    async release(...call) {
      const outcome = await adapter.release(...call)
      upkeep.released()
      return outcome
    },

    async close() {
      closing.abort()
      await Promise.all([upkeep.close(), creating])
      await adapter.close()
    },
  }
}
