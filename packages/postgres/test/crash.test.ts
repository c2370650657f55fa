import { isLockError } from '@locks/core'
import { expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { open, startServer } from './setup.ts'

const server = await startServer()
const kills = 20

test.each(['unique-key', 'row'])(
  `fences of strategy %s only rise across ${kills} kills of the server in mid-hold`,
  async (strategy) => {
    const options = { ttlMs: scaled(500) }
    const fences: bigint[] = []
    for (let kill = 0; kill <= kills; kill += 1) {
      const locks = open({ url: server.url, strategy }, options)
      const lease = await locks.lock('crash').acquire({ waitMs: scaled(20_000) })
      fences.push(lease.fence)
      if (kill < kills) await server.restart({ hard: true })
      // It may be held still, or over.
      await lease.release().catch((error: unknown) => expect(isLockError(error)).toBe(true))
      await locks.close()
    }
    expect(fences).toHaveLength(kills + 1)
    fences.reduce((before, fence) => {
      expect(fence).toBeGreaterThan(before)
      return fence
    })
  },
  scaled(240_000),
)
