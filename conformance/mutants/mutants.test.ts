import { describe, expect, test } from 'vitest'
import { isVoidRun } from '@locks/core/conformance'
import type { ConformanceCase } from '@locks/core/conformance'
import { breed } from './mutant.ts'
import { clientMutants } from './client-mutants.ts'
import { storeMutants } from './store-mutants.ts'

/** Shows that a mutant still is a working library, so that its rule fails for its bug and nothing else. */
const SANE = 'NAME-1'

function find(cases: readonly ConformanceCase[], id: string): ConformanceCase {
  const found = cases.find((one) => one.id === id)
  if (found === undefined) throw new Error(`no rule ${id}`)
  if (found.untested !== undefined) throw new Error(`${id} is untested on memory: ${found.untested}`)
  return found
}

const mutants = [...storeMutants, ...clientMutants]

describe('mutants', () => {
  const healthy = new Map(mutants.map(({ rule, given = [] }) => [rule, given]))

  test('the healthy library passes every rule that must catch a mutant', { timeout: 120_000 }, async () => {
    const { cases, dispose } = await breed([])
    for (const [rule, given] of healthy) if (given.length === 0) await find(cases, rule).run()
    await dispose()
  })

  for (const [rule, given] of healthy)
    if (given.length > 0)
      test(`the healthy library passes ${rule}, given what it needs`, { timeout: 60_000 }, async () => {
        const { cases, dispose } = await breed(given)
        await find(cases, rule).run()
        await dispose()
      })

  for (const { bug, rule, given = [], edits } of mutants)
    test(`${rule} catches: ${bug}`, { timeout: 60_000 }, async () => {
      const { cases, dispose } = await breed([...given, ...edits])
      await find(cases, SANE).run()
      const error: unknown = await find(cases, rule)
        .run()
        .then(
          () => undefined,
          (reason: unknown) => reason,
        )
      // Void is neither: this test then runs again.
      if (isVoidRun(error)) throw error
      expect(error, 'it was not caught').toBeInstanceOf(Error)
      await dispose()
    })
})
