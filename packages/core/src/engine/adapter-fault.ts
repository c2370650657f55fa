import { types } from 'node:util'
import { isLockError } from '../adapter/lock-error.ts'
import type { LockErrorCode } from '../adapter/lock-error.ts'

/** The codes that an adapter may use. Only core can conclude the others. */
const codes: ReadonlySet<string> = new Set<LockErrorCode>([
  'LOCK_UNAVAILABLE',
  'LOCK_INVALID_ARGUMENT',
  'LOCK_UNSUPPORTED',
  'LOCK_CLOSED',
])

/** An answer that the adapter contract does not allow. `storeError` turns it into `LOCK_UNAVAILABLE` for callers. */
export function adapterFault(method: string, answered: string): Error {
  return new TypeError(
    `the adapter is faulty: ${method} answered ${answered}. ` +
      'The answer was discarded and the outcome counts as unknown; report it to the author of the adapter',
  )
}

/** The failure of an adapter's method, in a form that core can read without running code of the adapter. */
export function adapterFailure(method: string, error: unknown): unknown {
  try {
    if (types.isNativeError(error) && hasPlainMessage(error)) {
      if (!isLockError(error) || codes.has(error.code)) return error
      return new Error(`the adapter rejected ${method} with ${error.code}: ${error.message}`, {
        cause: error,
      })
    }
    if (error instanceof Error) return new Error(String(error.message), { cause: error })
  } catch {
    return adapterFault(method, 'with a rejection that cannot be read')
  }
  return typeof error === 'string' ? error : adapterFault(method, `with a rejection that is ${kindOf(error)}`)
}

/** Describes a value in an error without showing a text, which may be an attempt id or a password. */
export function kindOf(value: unknown): string {
  switch (typeof value) {
    case 'number':
    case 'bigint':
    case 'boolean':
    case 'undefined':
      return String(value).slice(0, 40)
    case 'string':
      return value === '' ? 'an empty text' : `a text of ${value.length} characters`
    case 'object':
      return value === null ? 'null' : 'an object'
    default:
      return `a ${typeof value}`
  }
}

function hasPlainMessage(error: Error): boolean {
  const own = Object.getOwnPropertyDescriptor(error, 'message')
  return own === undefined ? error.message === '' : typeof own.value === 'string'
}
