import { errorsOf } from '@locks/core/adapter'
import type { AdapterErrors } from '@locks/core/adapter'

export const errors: AdapterErrors = errorsOf('@locks/cas')

/** The code of a system error, such as `ENOENT`. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}
