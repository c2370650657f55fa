import assert from 'node:assert/strict'
import { isLockError, LockError } from '../adapter/lock-error.ts'
import type { LockErrorCode } from '../adapter/lock-error.ts'

/**
 * The `LockError` that `outcome` rejects with. Fails the rule unless it has that code. An error with another code stays
 * a `LockError`: a paused machine may have caused the loss, time-out or silence.
 */
export async function lockError(outcome: Promise<unknown>, code: LockErrorCode): Promise<LockError> {
  const error = await outcome.then(
    () => assert.fail(`expected ${code}, but it succeeded`),
    (reason: unknown) => reason,
  )
  if (isLockError(error, code)) return error
  const message = `expected ${code}, got ${String(error)}`
  if (isLockError(error)) {
    const { code: actual, waitedMs } = error
    // The wait decides which stalls excuse it.
    throw new LockError(actual, message, { cause: error, ...(waitedMs !== undefined && { waitedMs }) })
  }
  assert.fail(message)
}

/** Fails the rule unless `outcome` rejects with exactly that reason. A `LockError` stays one, as in `lockError`. */
export async function rejectsWith(outcome: Promise<unknown>, reason: unknown): Promise<void> {
  const error = await outcome.then(
    () => assert.fail('expected a rejection, but it succeeded'),
    (actual: unknown) => actual,
  )
  if (error !== reason && isLockError(error)) throw error
  assert.equal(error, reason)
}
