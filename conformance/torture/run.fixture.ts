import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { faultKinds } from '../../packages/cli/dist/torture/faults.js'
import { torture } from '../../packages/cli/dist/torture/torture.js'
import { deployments } from './backends.ts'
import { settings } from './settings.ts'

/** Tortures the backends that `scripts/torture.mjs` names, some side by side, and writes what was seen of each. */
const { backends, forMs, seed, processes, folder } = settings()

/** At once: whatever becomes of the others, this one is known. */
function write(name: string, result: object): void {
  const plain = (_key: string, value: unknown): unknown => (typeof value === 'bigint' ? String(value) : value)
  writeFileSync(join(folder, `${name}.json`), JSON.stringify({ name, seed, ...result }, plain))
}

describe.concurrent('torture', () => {
  for (const name of backends)
    test(name, { timeout: forMs + 420_000 }, async () => {
      const historyIn = join(folder, `${name}-history`)
      mkdirSync(historyIn)
      write(name, { failure: 'it did not end' })
      try {
        const deployment = await deployments[name]?.()
        if (deployment === undefined) throw new Error(`no backend is called ${name}`)
        try {
          const { events, ...result } = await torture({
            ...deployment,
            forMs,
            seed,
            processes,
            names: 8,
            tasks: 3,
            ttlMs: 1_000,
            faults: faultKinds,
            historyIn,
            onProgress: ({ elapsedMs, grants, faults, phase }) => {
              if (Math.floor(elapsedMs / 1_000) % 60 === 0)
                process.stderr.write(
                  `${name}: ${Math.round(elapsedMs / 1_000)} s, ${grants} grants, ${faults} faults, ${phase}\n`,
                )
            },
          })
          const isClean = result.violations.length === 0
          if (isClean) rmSync(historyIn, { recursive: true })
          write(name, { ...result, recorded: events.length, ...(!isClean && { history: historyIn }) })
          expect(result.violations.map(({ check, message }) => `${check}: ${message}`)).toEqual([])
        } finally {
          await deployment.close()
        }
      } catch (error) {
        if (isVerdict(error)) throw error
        write(name, { failure: String(error), history: historyIn })
        throw error
      }
    })
})

/** What `expect` throws is written already. */
function isVerdict(error: unknown): boolean {
  return error instanceof Error && error.name === 'AssertionError'
}
