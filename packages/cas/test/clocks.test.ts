import { assertInTime, startChild } from '@locks/core/conformance'
import type { Child } from '@locks/core/conformance'
import { openLocks } from '@locks/core'
import { setTimeout as pass } from 'node:timers/promises'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { temporaryDirectory } from './support/bed.ts'

const ttlMs = scaled(3_000)

const preload = new URL('jumping-clock.mjs', import.meta.url).href

async function start(directory: string, wall: 'jumps' | 'true'): Promise<Child> {
  if (wall === 'jumps') vi.stubEnv('NODE_OPTIONS', `--import ${preload}`)
  const child = await startChild().finally(() => vi.unstubAllEnvs())
  onTestFinished(() => child.kill())
  await child.call('open', { config: `file:${directory}`, options: { ttlMs } })
  return child
}

describe.each([
  ['holder', 'jumps', 'true'],
  ['contender', 'true', 'jumps'],
  ['both', 'jumps', 'jumps'],
] as const)('the wall clock of %s jumps by an hour, again and again', (_, ofHolder, ofContender) => {
  test(
    'a live holder keeps its lock, and a dead one is taken over from after its ttl, not before',
    async () => {
      const directory = await temporaryDirectory()
      const [holder, contender] = [await start(directory, ofHolder), await start(directory, ofContender)]
      const { lease, fence } = await holder.call('acquire', { lock: 'order' })
      const until = performance.now() + ttlMs * 1.5
      while (performance.now() < until) {
        const stolen = await contender.call('tryAcquire', { lock: 'order' })
        // A stall of the holder ends its lease by its own clock too, which the next line reports.
        if (stolen !== null) expect((await holder.call('state', { lease })).state).toBe('lost')
        await holder.call('assertHeld', { lease })
        await pass(20)
      }
      const waiting = contender.call('acquire', { lock: 'order', options: { waitMs: scaled(30_000) } })
      // The last heartbeat, or one before it.
      const beatAt = performance.now()
      await holder.call('extend', { lease })
      await holder.kill()
      const next = await waiting
      const tookMs = performance.now() - beatAt
      expect(next.fence).toBeGreaterThan(fence)
      expect(tookMs).toBeGreaterThan(ttlMs)
      // Not an hour: what it takes beyond the ttl is up to the machine.
      await assertInTime('granted to the next', ttlMs + 15_000, tookMs)
    },
    scaled(60_000),
  )
})

test('the stub does what it says', async () => {
  const directory = await temporaryDirectory()
  const holder = await start(directory, 'jumps')
  await holder.call('acquire', { lock: 'order' })
  const locks = await openLocks(`file:${directory}`)
  onTestFinished(() => locks.close())
  const { holder: shown } = await locks.inspect('order')
  expect(Math.abs((shown?.since ?? Date.now()) - Date.now())).toBeGreaterThan(3_000_000)
})
