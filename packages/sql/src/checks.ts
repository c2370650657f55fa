import { toMs } from '@locks/core/adapter'
import type { Faults } from './faults.ts'

/** A schema or table: quoted wherever it is used, and short enough that names made from it are taken whole. */
export function identifier({ invalid }: Faults, key: string, value: unknown, most: number = 48): string {
  if (typeof value === 'string' && value.length <= most && /^[A-Za-z_][A-Za-z0-9_]*$/.test(value))
    return value
  throw invalid(`${key} must be 1 to ${most} letters, digits or _, and not begin with a digit`)
}

export function wholeNumber(
  { invalid }: Faults,
  key: string,
  value: unknown,
  [least, most]: readonly [number, number],
): number {
  const number = key.endsWith('Ms') ? toMs(value) : value
  if (typeof number === 'number' && Number.isSafeInteger(number) && number >= least && number <= most)
    return number
  throw invalid(`${key} must be a whole number from ${least} to ${most}`)
}

export function boolean({ invalid }: Faults, key: string, value: unknown): boolean {
  if (typeof value === 'boolean') return value
  throw invalid(`${key} must be true or false`)
}

/** A parameter of a URL as the value that an option would have. */
export function fromUrl(text: string): number | boolean | string {
  if (/^\d+$/.test(text)) return Number(text)
  return text === 'true' || text === 'false' ? text === 'true' : text
}
