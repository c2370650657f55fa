import { errorsOf } from '@locks/core/adapter'
import type { AdapterErrors, LockError } from '@locks/core/adapter'

export const errors: AdapterErrors = errorsOf('@locks/cas')

/** The code of a system error, such as `ENOENT`. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** A put whose reply was lost, and that is not the current value: others may have put in between. */
export function uncertainPut(): LockError {
  return errors.unavailable(
    'the connection broke during a put, so it is unknown whether this client has the lock; check the network',
  )
}
