import assert from 'node:assert/strict'
import { isLockError, LockError } from '../api/errors.ts'
import type { LockErrorCode } from '../api/errors.ts'

/**
 * The `LockError` that `outcome` rejects with. Fails the rule unless it has that code. An error with another code stays
 * a
 * `LockError`: a paused machine may have caused the loss, time-out or silence.
 */
export async function lockError(outcome: Promise<unknown>, code: LockErrorCode): Promise<LockError> {
  const error = await outcome.then(
    () => assert.fail(`expected ${code}, but it succeeded`),
    (reason: unknown) => reason,
  )
  if (isLockError(error, code)) return error
  const message = `expected ${code}, got ${String(error)}`
  if (isLockError(error)) throw new LockError(error.code, message, { cause: error })
  assert.fail(message)
}
