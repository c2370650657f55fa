import { describe, expect, test } from 'vitest'
import { faultKinds } from '../../packages/cli/dist/torture/faults.js'
import { torture } from '../../packages/cli/dist/torture/torture.js'
import { isSelected } from '../selection.ts'
import { scaled } from '../services/timing.ts'
import { deployments } from './backends.ts'

/** Two minutes in all for every backend together; `scripts/torture.mjs` runs for as long as you like. */
const small = { forMs: 8_000, processes: 2, tasks: 3, names: 3, ttlMs: 1_000, seed: 1, faults: faultKinds }

describe.concurrent('torture', () => {
  for (const [name, deploy] of Object.entries(deployments))
    test.runIf(isSelected(name))(
      `${name} has one holder at a time while workers, connections and servers fail`,
      { timeout: scaled(240_000) },
      async () => {
        const deployment = await deploy()
        try {
          const { violations } = await torture({ ...deployment, ...small })
          expect(violations.map(({ check, message }) => `${check}: ${message}`)).toEqual([])
        } finally {
          await deployment.close()
        }
      },
    )
})
