import { describe, expect, test } from 'vitest'
import { countsByTarget, faultKinds } from '../../packages/cli/dist/torture/faults.js'
import { torture } from '../../packages/cli/dist/torture/torture.js'
import { isSelected } from '../selection.ts'
import { scaled } from '../services/timing.ts'
import { deployments } from './backends.ts'

/** Two minutes in all for every backend together; `scripts/torture.mjs` runs for as long as you like. */
const small = { forMs: 5_000, processes: 2, tasks: 3, names: 3, ttlMs: 1_000, seed: 1, faults: faultKinds }

describe.concurrent('torture', () => {
  for (const [name, deploy] of Object.entries(deployments))
    test.runIf(isSelected(name))(
      `${name} has one holder at a time while workers, connections and servers fail`,
      { timeout: scaled(240_000) },
      async () => {
        const deployment = await deploy()
        try {
          const { violations, faults, leftOut } = await torture({ ...deployment, ...small })
          expect(violations.map(({ check, message }) => `${check}: ${message}`)).toEqual([])
          const applied = faultKinds.filter((kind) => !leftOut?.faults.includes(kind))
          const counts = countsByTarget(applied, deployment.serverFaults, faults)
          const isFile = name === 'cas-file'
          expect(Object.keys(counts)).toEqual(isFile ? ['process'] : ['wire', 'process', 'server'])
          for (const [target, count] of Object.entries(counts))
            expect(count, `faults of ${target} among ${JSON.stringify(faults)}`).toBeGreaterThan(0)
        } finally {
          await deployment.close()
        }
      },
    )
})
