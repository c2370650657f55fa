import { writeFileSync } from 'node:fs'
import { afterAll, describe, expect, test } from 'vitest'
import { torture } from '../../packages/cli/dist/torture/torture.js'
import { deployments } from './backends.ts'
import { settings } from './settings.ts'

/** Tortures the backends that `scripts/torture.mjs` names, some side by side, and writes what was seen. */
const { backends, forMs, seed, processes, file } = settings()
const results: Record<string, unknown> = {}

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
        const { events: _, ...shown } = result
        results[name] = shown
        expect(result.violations.map(({ check, message }) => `${check}: ${message}`)).toEqual([])
      } finally {
        await deployment.close()
      }
    })
})

afterAll(() => {
  const plain = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value)
  writeFileSync(file, JSON.stringify(results, plain, 2))
})
