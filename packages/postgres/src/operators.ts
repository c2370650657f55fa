import type { Adapter, Clock, Holder, LockState } from '@locks/core/adapter'
import { becomesTrue, holderFrom } from '@locks/sql'
import type { Row, Statement } from './connection.ts'
import { errors, isQueueFull } from './errors.ts'
import type { Runner } from './runner.ts'
import type { RowStatements, UniqueKeyStatements } from './sql.ts'

type Operators = Required<Pick<Adapter, 'list' | 'break'>>

/** A terminated backend ends when it next checks for interrupts: at once, unless the machine is busy. */
const ENDS_WITHIN_MS = 3_000

export function uniqueKeyOperators(sql: UniqueKeyStatements, runner: Runner): Operators {
  return {
    list: (limit) => statesOf(runner.ask(sql.list, [limit])),

    async break(name, { fence }) {
      const [[outcome]] = await notifying(runner, sql.break, keyOf(name, fence))
      return outcome === 'broken' ? 'broken' : 'not-held'
    },
  }
}

/**
 * For a statement that may hand a lock off. Its last value says whether it notifies the next in line. If the server's
 * queue of notifications is full it runs again without, so that the lock is free all the same.
 */
export function notifying(
  runner: Runner,
  statement: Statement,
  values: unknown[],
): ReturnType<Runner['ask']> {
  return runner.ask(statement, [...values, true]).catch((error: unknown) => {
    if (!isQueueFull(error)) throw error
    return runner.ask(statement, [...values, false])
  })
}

export function rowOperators(sql: RowStatements, runner: Runner, clock: Clock): Operators {
  return {
    list: (limit) => statesOf(runner.ask(sql.list, [limit])),

    async break(name, { fence }) {
      const key = keyOf(name, fence)
      const [[ended]] = await runner.ask(sql.break, key)
      if (ended === '0') return 'not-held'
      const isOver = async (): Promise<boolean> => (await runner.ask(sql.holds, key))[0][0] === 'f'
      if (await becomesTrue(clock, ENDS_WITHIN_MS, isOver)) return 'broken'
      throw errors.unavailable(
        'the connection of that hold was terminated and has not ended yet; the lock is still held, break it again',
      )
    },
  }
}

/** No hold has the fence 0. */
function keyOf(name: string, fence: Holder['fence']): unknown[] {
  return [Buffer.from(name), String(fence ?? 0n)]
}

/** Drops the row without a name, which a statement returns when it finds nothing. */
async function statesOf(answer: Promise<readonly Row[]>): Promise<readonly LockState[]> {
  return (await answer).filter(([name]) => name !== null).map(stateOf)
}

function stateOf([name, fence, holder, since, remaining, waiters]: Row): LockState {
  const by = holderFrom(holder, fence, since)
  return {
    name: Buffer.from(name ?? '', 'hex').toString(),
    held: true,
    ...(by && { holder: by }),
    ...(remaining !== undefined && { remainingMs: Math.max(0, Number(remaining)) }),
    ...(waiters !== undefined && { waiters: Number(waiters) }),
  }
}
