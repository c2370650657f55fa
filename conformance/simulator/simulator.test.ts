import { randomInt } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { brokenVariants } from './broken-variants.ts'
import { atLength } from '../selection.ts'
import { simulate } from './simulation.ts'

const GRANTS_PER_SEED = 1_000
const SEEDS_PER_VARIANT = 60
const TIMEOUT_MS = 120_000

const replayed = process.env['LOCKS_SIM_SEED']
const wanted = replayed === undefined ? atLength(2_000, 200_000) : GRANTS_PER_SEED
const fixed = Array.from({ length: Math.ceil(wanted / GRANTS_PER_SEED) }, (_, index) => index + 1)
const seeds = replayed === undefined ? [...fixed, randomInt(2 ** 32)] : [Number(replayed)]

describe('clients in virtual time keep every invariant', () => {
  let grants = 0

  for (const seed of seeds)
    test(`every invariant holds: seed ${seed}`, { timeout: TIMEOUT_MS }, async () => {
      const { problems, summary } = await simulate(seed, GRANTS_PER_SEED)
      grants += summary.grants
      const lines = problems.map(({ check, message }) => `  ${check} ${message}`)
      const replay = `LOCKS_SIM_SEED=${seed} npx vitest run conformance/simulator`
      expect(problems, [`seed ${seed}; replay with: ${replay}`, ...lines].join('\n')).toEqual([])
    })

  test(`coverage: ${seeds.length} seeds make ${wanted} grants or more`, () => {
    console.log(
      `simulator: ${grants} grants; seeds: ${seeds.join(', ')}${replayed === undefined ? ' (random)' : ''}`,
    )
    expect(grants).toBeGreaterThanOrEqual(wanted)
  })
})

test('a seed replays event by event', { timeout: TIMEOUT_MS }, async () => {
  const seed = seeds.at(-1) ?? 0
  const hashes: string[] = []
  for (const played of [seed, seed, seed + 1]) hashes.push((await simulate(played, 300)).journal.hash())
  expect(hashes[1]).toBe(hashes[0])
  expect(hashes[2]).not.toBe(hashes[0])
})

describe('a broken variant is seen', () => {
  for (const { title, caughtBy, sabotage } of brokenVariants)
    test(`${caughtBy}: ${title}`, { timeout: TIMEOUT_MS }, async () => {
      const seen = new Set<string>()
      for (let seed = 1; seed <= SEEDS_PER_VARIANT && !seen.has(caughtBy); seed += 1)
        for (const { check } of (await simulate(seed, 300, sabotage)).problems) seen.add(check)
      expect([...seen]).toContain(caughtBy)
    })
})
