import { isLockError } from '@locks/core'
import type { Task } from './task.ts'

const expected: readonly string[] = ['LOCK_TIMEOUT', 'LOCK_LOST', 'LOCK_UNAVAILABLE']

/** The code of an expected error, or `undefined` for any other. */
export function codeOf(error: unknown, signal?: AbortSignal): string | undefined {
  if (signal?.aborted === true && error === signal.reason) return 'aborted'
  return isLockError(error) && expected.includes(error.code) ? error.code : undefined
}

/** Reports what must never happen. */
export function complain(by: Task, what: string, error: unknown): void {
  const code = isLockError(error) ? `${error.code} ` : ''
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  by.tell({ type: 'wrong', what: `${by.order.process}/${by.task}: ${what} ${code}${text}` })
}
