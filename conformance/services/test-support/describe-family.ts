import { describe } from 'vitest'
import { isAdapterSelected } from '../../selection.ts'
import type { Family } from '../families.ts'
import { scaled } from '../timing.ts'

/** Registers tests of a server only when the run is about an adapter that needs it. */
export function describeFamily(family: Family, title: string, register: () => void): void {
  if (isAdapterSelected(family)) describe(title, { timeout: scaled(60_000) }, register)
}
