import type { Adapter, AcquireRequest, Capabilities, LockError } from '@locks/core/adapter'
import type { Faults } from './faults.ts'
import { UnderWay } from './under-way.ts'

/** Which strategy the locks of one place belong to, as the server has it. */
export interface StrategyRecord {
  /** Quoted names of the locks and of the record itself, for messages. */
  readonly locks: string
  readonly table: string
  /** Undefined when no strategy has been used there yet. */
  read(): Promise<string | undefined>
  /** Records the strategy, unless one is recorded already. */
  write(strategy: string): Promise<unknown>
  /** Opens what the first attempt needs, while the record is read. What fails here fails there again. */
  prepare?(): Promise<unknown>
}

/** Why a strategy is refused, and what to do. The same text is the finding of `diagnose`. */
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
      `set strategy to ${owner}, or give this client a table of its own (option table); ` +
      `to change the strategy, close all clients that use ${owner} and delete the row in ${table}`,
  }
}

/**
 * Strategies keep the same name in different tables, so each of them would grant it. The first one that asks for a lock
 * owns the place, and the others are refused. The record is read before the first call of a client, and not again.
 */
export function claimed<C extends Capabilities>(
  adapter: Adapter<C>,
  strategy: string,
  record: StrategyRecord,
  { invalid, unavailable }: Faults,
): Adapter<C> {
  const underWay = new UnderWay()
  const adopt = adapter.adopt?.bind(adapter)
  const withdraw = adapter.withdraw?.bind(adapter)
  const list = adapter.list?.bind(adapter)
  const breakIt = adapter.break?.bind(adapter)
  let ours = false
  let claiming: Promise<void> | undefined

  /** Whether the place is ours already. Rejects when it belongs to another strategy. */
  async function look(): Promise<boolean> {
    const owner = await record.read()
    if (owner !== undefined && owner !== strategy) throw refusal(owner)
    return (ours = owner === strategy)
  }

  async function claim(): Promise<void> {
    const [known] = await Promise.all([look(), record.prepare?.().catch(() => undefined)])
    if (known) return
    // Of two that come at once, one writes it; both then read the same.
    await record.write(strategy)
    if (!(await look())) throw unavailable(`the strategy could not be recorded in ${record.table}`)
  }

  function refusal(owner: string): LockError {
    const { message, advice } = otherStrategy(record, strategy, owner)
    return invalid(`${message}; ${advice}`)
  }

  /** In order with a withdrawal, which must not overtake it while the record is read. */
  function first<T>({ attemptId }: AcquireRequest, call: () => Promise<T>): Promise<T> {
    return underWay.run(attemptId, async () => {
      await (claiming ??= claim().finally(() => (claiming = undefined)))
      return call()
    })
  }

  /** For what only reads: it claims nothing, and does not call a name free that another strategy holds. */
  async function looked<T>(call: () => Promise<T>): Promise<T> {
    if (!ours) await look()
    return call()
  }

  return {
    ...adapter,
    attempt: (request) => (ours ? adapter.attempt(request) : first(request, () => adapter.attempt(request))),
    ...(withdraw && {
      withdraw: (request) => underWay.after(request.attemptId, () => withdraw(request)),
    }),
    inspect: (name) => looked(() => adapter.inspect(name)),
    ...(adopt && {
      adopt: (from, request) => (ours ? adopt(from, request) : first(request, () => adopt(from, request))),
    }),
    ...(list && { list: (limit) => looked(() => list(limit)) }),
    ...(breakIt && { break: (name, holder) => looked(() => breakIt(name, holder)) }),
  }
}
