import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { batchesOf } from '@locks/core/adapter'
import { conformance, isVoidRun, stallMeter, VoidRunError } from '@locks/core/conformance'
import type { ConformanceCase } from '@locks/core/conformance'
import { breed } from './mutant.ts'
import type { Mutant } from './mutant.ts'
import { clientMutants } from './client-mutants.ts'
import { onceMutants } from './once-mutants.ts'
import { storeMutants } from './store-mutants.ts'
import { scope } from '../selection.ts'

/** Shows that a mutant still is a working library, so that its rule fails for its bug and nothing else. */
const SANE = 'NAME-1'

function find(cases: readonly ConformanceCase[], id: string): ConformanceCase {
  const found = cases.find((one) => one.id === id)
  if (found === undefined) throw new Error(`no rule ${id}`)
  if (found.untested !== undefined) throw new Error(`${id} is untested on memory: ${found.untested}`)
  return found
}

const every = scope() === 'quick' ? 5 : 1
const mutants = [...storeMutants, ...onceMutants, ...clientMutants].filter((_, n) => n % every === 0)
const aloneRules = (await conformance({ name: 'memory', config: 'memory:' }))
  .filter(({ alone }) => alone)
  .map(({ id }) => id)

// Beside others; but what blocks this process would make theirs late.
const isAlone = (rule: string): boolean => aloneRules.includes(rule)

// Apart from the mutants: to load each of those keeps this process from everything else for a moment.
describe('the healthy library', () => {
  const healthy = new Map(mutants.map(({ rule, given = [] }) => [rule, given]))
  let plain: ReturnType<typeof breed> | undefined
  beforeAll(async () => void (await (plain = breed([]))))
  afterAll(async () => (await plain)?.dispose())

  for (const [rule, given] of [...healthy].toSorted(([a], [b]) => Number(isAlone(a)) - Number(isAlone(b))))
    test(
      `passes ${rule}, which must catch a mutant`,
      { concurrent: !isAlone(rule) && given.length === 0 },
      async () => {
        if (given.length === 0) return find((await plain)?.cases ?? [], rule).run()
        const { cases, dispose } = await breed(given)
        await find(cases, rule).run()
        await dispose()
      },
    )
})

/** How many are loaded together. To load them keeps this process busy, and one that waits meanwhile is late. */
const BATCH = 12

const HIDES_MS = 50

/** A stall hides bugs about time: a wait that is given up too early takes long enough all the same. */
async function assertNothingHidden(tookMs: number): Promise<void> {
  const stalls = await stallMeter.since(tookMs)
  if (stalls.some(({ longestMs }) => longestMs > HIDES_MS))
    throw new VoidRunError('it was not caught', stalls)
}

const ordered = mutants.toSorted((a, b) => Number(isAlone(a.rule)) - Number(isAlone(b.rule)))

describe.each([...batchesOf(ordered, BATCH)].map((batch, n) => ({ n: n + 1, batch })))(
  'mutants $n',
  ({ batch }) => {
    // Each in a copy of its own.
    const copies = new Map<Mutant, Awaited<ReturnType<typeof breed>>>()
    beforeAll(async () => {
      for (const mutant of batch) {
        const copy = await breed([...(mutant.given ?? []), ...mutant.edits])
        copies.set(mutant, copy)
        await find(copy.cases, SANE).run()
      }
    })
    afterAll(async () => {
      for (const { dispose } of copies.values()) await dispose()
    })

    for (const mutant of batch)
      test(`${mutant.rule} catches: ${mutant.bug}`, { concurrent: !isAlone(mutant.rule) }, async () => {
        const startedAt = performance.now()
        const error: unknown = await find(copies.get(mutant)?.cases ?? [], mutant.rule)
          .run()
          .then(
            () => undefined,
            (reason: unknown) => reason,
          )
        // Void is neither: this test then runs again.
        if (isVoidRun(error)) throw error
        if (error === undefined) await assertNothingHidden(performance.now() - startedAt)
        expect(error, 'it was not caught').toBeInstanceOf(Error)
      })
  },
)
