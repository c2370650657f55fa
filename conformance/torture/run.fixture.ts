import { writeFileSync } from 'node:fs'
import { afterAll, describe, expect, test } from 'vitest'
import type { TortureResult } from '../../packages/cli/dist/torture/options.js'
import { torture } from '../../packages/cli/dist/torture/torture.js'
import { deployments } from './backends.ts'
import { settings } from './settings.ts'
import { tableOf } from './table.ts'

/** Tortures the backends that `scripts/torture.mjs` names, some side by side, and writes what was seen. */
const { backends, forMs, seed, processes, file } = settings()
const results = new Map<string, TortureResult>()

describe.concurrent('torture', () => {
  for (const name of backends)
    test(name, { timeout: forMs + 300_000 }, async () => {
      const deployment = await deployments[name]?.()
      if (deployment === undefined) throw new Error(`no backend is called ${name}`)
      try {
        const result = await torture({
          ...deployment,
          forMs,
          seed,
          processes,
          names: 8,
          tasks: 3,
          ttlMs: 1_000,
          faults: ['kill', 'pause', 'block', 'cut', 'delay', 'swallow', 'refuse'],
          onProgress: ({ elapsedMs, grants, faults, phase }) => {
            if (Math.floor(elapsedMs / 1_000) % 60 === 0)
              process.stderr.write(
                `${name}: ${Math.round(elapsedMs / 1_000)} s, ${grants} grants, ${faults} faults, ${phase}\n`,
              )
          },
        })
        results.set(name, { ...result, events: [] })
        expect(result.violations.map(({ check, message }) => `${check}: ${message}`)).toEqual([])
      } finally {
        await deployment.close()
      }
    })
})

afterAll(() => {
  const found = [...results].flatMap(([name, { violations }]) =>
    violations.map((one) => [name, one] as const),
  )
  const plain = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value)
  const shown = found.map(([name, one]) => `${name}: ${JSON.stringify(one, plain)}`)
  writeFileSync(file, [tableOf(backends, results), ...shown].join('\n'))
})
