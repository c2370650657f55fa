import { setImmediate as turn } from 'node:timers/promises'
import type { Lease, Locks } from '../api/contract.ts'
import { isLockError } from '../adapter/lock-error.ts'
import type { Recorder } from './history.ts'

/** A counter that loses updates unless a lock protects it. */
export interface Counter {
  read(): number
  write(value: number): void
}

export interface ContendOptions {
  readonly lock: string
  readonly tasks: number
  readonly cycles: number
  readonly waitMs: number
  readonly recorder: Recorder
  readonly counter: Counter
}

export interface Contention {
  /** Updates made under the lock: how much the counter must have increased. */
  readonly updates: number
}

/** Tasks that acquire one lock repeatedly, and update a counter by an unprotected read and write. */
export async function contend(locks: Locks, options: ContendOptions): Promise<Contention> {
  const tasks = Array.from({ length: options.tasks }, (_, n) => contendTask(locks, `task ${n}`, options))
  const updates = await Promise.all(tasks)
  return { updates: updates.reduce((sum, made) => sum + made, 0) }
}

async function contendTask(locks: Locks, task: string, options: ContendOptions): Promise<number> {
  const { lock, cycles, waitMs, recorder, counter } = options
  const act = { name: lock, task }
  let updates = 0
  for (let cycle = 0; cycle < cycles; cycle += 1) {
    recorder.record({ ...act, type: 'acquire-called' })
    const lease = await locks.lock(lock).acquire({ waitMs })
    const held = { ...act, fence: lease.fence }
    recorder.record({ ...held, type: 'granted', deadline: deadlineOf(lease, recorder) })
    try {
      const seen = counter.read()
      await turn()
      let t: number
      do {
        const deadline = await confirmedDeadline(lease, recorder)
        recorder.record({ ...held, type: 'renewed', deadline })
        t = recorder.now()
      } while (isInDoubt(lease))
      counter.write(seen + 1)
      recorder.record({ ...held, t, type: 'protected' })
      updates += 1
      recorder.record({ ...held, type: 'release-called' })
      await lease.release()
      recorder.record({ ...held, type: 'released' })
    } catch (error) {
      // On a machine too busy to renew in time a lock may be lost; then nothing was written.
      if (!isLockError(error, 'LOCK_LOST')) throw error
      recorder.record({ ...held, type: 'lost' })
    }
  }
  return updates
}

/** Until when it is held. If a paused machine leaves that in doubt, the store is asked. */
export async function confirmedDeadline(lease: Lease, recorder: Recorder): Promise<number> {
  for (;;) {
    // A lost lease has no deadline to read.
    const deadline = deadlineOf(lease, recorder)
    if (!isInDoubt(lease)) return deadline
    await lease.extend()
  }
}

/** Whether the lease is in doubt. Throws when it is lost. */
function isInDoubt(lease: Lease): boolean {
  try {
    lease.assertHeld()
    return false
  } catch (error) {
    if (isLockError(error, 'LOCK_UNAVAILABLE')) return true
    throw error
  }
}

function deadlineOf(lease: Lease, recorder: Recorder): number {
  return recorder.deadline(() => lease.remainingMs)
}
