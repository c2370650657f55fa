import { isWhole } from '@locks/core/adapter'
import type { Faults } from './faults.ts'

/** A column of the program's, quoted wherever it is used. */
export function columnName({ invalid }: Faults, value: unknown): string {
  if (typeof value === 'string' && /^[A-Za-z_][A-Za-z0-9_]{0,62}$/.test(value)) return value
  throw invalid('column must be 1 to 63 letters, digits or _, and not begin with a digit')
}

export function wholeNumber(
  { invalid }: Faults,
  key: string,
  value: unknown,
  range: readonly [number, number],
): number {
  if (isWhole(value, range)) return value
  throw invalid(`${key} must be a whole number from ${range[0]} to ${range[1]}`)
}
