import { isWhole } from '@locks/core/adapter'
import type { SqlErrors } from './errors.ts'

export function wholeNumber(
  { invalid }: SqlErrors,
  key: string,
  value: unknown,
  range: readonly [number, number],
): number {
  if (isWhole(value, range)) return value
  throw invalid(`${key} must be a whole number from ${range[0]} to ${range[1]}`)
}
