import { isWhole } from '@locks/core/adapter'
import type { SqlErrors } from './errors.ts'

/** The name of a column in a table of the program. */
export function columnName({ invalid }: SqlErrors, value: unknown): string {
  if (typeof value === 'string' && /^[A-Za-z_][A-Za-z0-9_]{0,62}$/.test(value)) return value
  throw invalid('column must be 1 to 63 letters, digits or _, and not begin with a digit')
}

export function wholeNumber(
  { invalid }: SqlErrors,
  key: string,
  value: unknown,
  range: readonly [number, number],
): number {
  if (isWhole(value, range)) return value
  throw invalid(`${key} must be a whole number from ${range[0]} to ${range[1]}`)
}
