import { LockError } from './lock-error.ts'
import type { LockErrorCode } from './lock-error.ts'

type Build = (message: string, cause?: unknown) => LockError

export interface AdapterErrors {
  /** A bad option, or a store that refuses until its setup is changed: trying again cannot help. */
  readonly invalid: Build
  /** The store failed or did not answer, or the outcome is unknown. */
  readonly unavailable: Build
  /** The store does not support what was asked for. */
  readonly unsupported: Build
}

/** Makes the errors of an adapter. Their messages begin with the name of its package. */
export function errorsOf(packageName: string): AdapterErrors {
  const build =
    (code: LockErrorCode): Build =>
    (message, cause) =>
      new LockError(code, `${packageName}: ${message}`, cause === undefined ? {} : { cause })
  return {
    invalid: build('LOCK_INVALID_ARGUMENT'),
    unavailable: build('LOCK_UNAVAILABLE'),
    unsupported: build('LOCK_UNSUPPORTED'),
  }
}
