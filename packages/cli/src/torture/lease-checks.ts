import type { Lease } from '@locks/core'
import { codeOf, complain } from './failure.ts'
import type { Task } from './task.ts'

export interface LeaseChecks {
  /** Checks the lease. Returns `unknown` only if a hold ends with its connection. */
  check(): 'held' | 'lost' | 'unknown'
  /** Records the last check that passed, unless it is already recorded. */
  note(): void
}

/** How often checks that pass are recorded; the last one always is. */
const RECORD_MS = 100

/** The checks of one lease. A check that passes counts from before it began. */
export function leaseChecks(
  task: Task,
  lease: Lease,
  act: { readonly name: string; readonly task: string; readonly fence: bigint },
): LeaseChecks {
  const { recorder } = task
  const isConnection = task.locks.capabilities.kind === 'connection'
  let passedAt = -Infinity
  let recordedAt = -Infinity
  let lost = false
  const note = (): void => {
    if (passedAt === recordedAt) return
    recorder.record({ type: 'renewed', ...act, deadline: passedAt })
    recordedAt = passedAt
  }
  return {
    note,
    check() {
      const before = recorder.now()
      try {
        lease.assertHeld()
      } catch (error) {
        const code = codeOf(error)
        if (code === 'LOCK_UNAVAILABLE' && isConnection) return 'unknown'
        if (code !== 'LOCK_LOST') complain(task, `assertHeld of ${act.name} threw`, error)
        note()
        if (!lost) recorder.record({ type: 'lost', ...act })
        lost = true
        return 'lost'
      }
      passedAt = before
      if (before - recordedAt >= RECORD_MS) note()
      return 'held'
    },
  }
}
