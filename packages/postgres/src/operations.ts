import type { Adapter, Clock, Holder, LockState } from '@locks/core/adapter'
import { readHolder } from '@locks/sql'
import { faults, isQueueFull } from './errors.ts'
import type { Row, Statement } from './line.ts'
import type { Runner } from './runner.ts'
import type { RowStatements, UniqueKeyStatements } from './sql.ts'

// What operators ask for: who holds what, and an end to it.

type Operations = Required<Pick<Adapter, 'list' | 'break'>>

/** A backend that is told to end does so when it next looks, which is at once unless the machine is busy. */
const LOOK_AGAIN_MS = 10
const LOOKS = 300

export function uniqueKeyOperations(sql: UniqueKeyStatements, runner: Runner): Operations {
  return {
    list: (limit) => statesOf(runner.ask(sql.list, [limit])),

    async break(name, { fence }) {
      const [[outcome]] = await notifying(runner, sql.break, keyOf(name, fence))
      return outcome === 'broken' ? 'broken' : 'not-held'
    },
  }
}

/**
 * For a statement that may hand a lock over. Its last value says whether it notifies the next in line; if the queue of
 * notifications is full it is run again without, so that the lock is free all the same.
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

export function rowOperations(sql: RowStatements, runner: Runner, clock: Clock): Operations {
  return {
    list: (limit) => statesOf(runner.ask(sql.list, [limit])),

    async break(name, { fence }) {
      const key = keyOf(name, fence)
      const [[told]] = await runner.ask(sql.break, key)
      if (told === '0') return 'not-held'
      for (let looks = 0; looks < LOOKS; looks += 1) {
        const [[holds]] = await runner.ask(sql.holds, key)
        if (holds === 'f') return 'broken'
        await new Promise<void>((resolve) => void clock.timer(LOOK_AGAIN_MS, resolve))
      }
      throw faults.unavailable('the connection of that hold was told to end, and has not yet')
    },
  }
}

/** No hold has the fence 0. */
function keyOf(name: string, fence: Holder['fence']): unknown[] {
  return [Buffer.from(name), String(fence ?? 0n)]
}

/** Without the row that is there when nothing is. */
async function statesOf(answer: Promise<readonly Row[]>): Promise<readonly LockState[]> {
  return (await answer).filter(([name]) => name !== null).map(stateOf)
}

function stateOf([name, fence, holder, since, remaining, waiters]: Row): LockState {
  const by = readHolder(holder, fence, since)
  return {
    name: Buffer.from(name ?? '', 'hex').toString(),
    held: true,
    ...(by && { holder: by }),
    ...(remaining !== undefined && { remainingMs: Math.max(0, Number(remaining)) }),
    ...(waiters !== undefined && { waiters: Number(waiters) }),
  }
}
