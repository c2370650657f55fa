import { describe, expect, test } from 'vitest'
import { isSelected, type Family } from '../families.ts'
import { scaled } from '../timing.ts'

/** Registers tests only when LOCKS_ONLY leaves their family in; otherwise says that it does not. */
export function describeFamily(family: Family, title: string, register: () => void): void {
  if (isSelected(family)) {
    describe(title, { timeout: scaled(60_000) }, register)
    return
  }
  test(`${title}: left out, LOCKS_ONLY does not name ${family}`, () => {
    expect(process.env['LOCKS_ONLY']?.split(',')).not.toContain(family)
  })
}
