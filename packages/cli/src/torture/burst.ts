import { setTimeout as pass } from 'node:timers/promises'
import { keptNames } from './keeper.ts'
import { ownName, tryWith } from './run-task.ts'
import type { Task } from './task.ts'

/** From the loss of its connections until a client has usually connected again. */
const WAVES = 12
const WAVE_MS = 15

/** Tasks that only try locks while the connections of their worker are broken or refused. */
export const burstTasks: readonly string[] = Array.from({ length: WAVES }, (_, n) => `burst-${n + 1}`)

export interface Bursts {
  begin(): void
  /** Resolves when no call is left. */
  over(): Promise<void>
}

/**
 * Tries a free name and two that are mostly held, all at once, in waves. What is queued until the next connection is
 * sent together: if replies are then read one place off, the grant of the free name is taken for one of the others.
 */
export function bursts(tasks: readonly Task[], stop: AbortSignal): Bursts {
  let underWay: Promise<unknown> | undefined
  const wave = async (task: Task, n: number): Promise<void> => {
    await pass(n * WAVE_MS)
    if (stop.aborted) return
    const held = keptNames(task.order.prefix, task.order.tasks)
    const names = [ownName(task), ...held.slice(0, 2)]
    await Promise.all(names.map((name) => tryWith(task, name)))
  }
  return {
    begin() {
      // A task has one call for a name at a time.
      underWay ??= Promise.all(tasks.map(wave)).finally(() => (underWay = undefined))
    },
    over: async () => void (await underWay),
  }
}
