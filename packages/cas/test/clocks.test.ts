import { startChild } from '@locks/core/conformance'
import type { Child } from '@locks/core/conformance'
import { openLocks } from '@locks/core'
import { setTimeout as pass } from 'node:timers/promises'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { temporaryDirectory } from './support.ts'

const slow = Number(process.env['LOCKS_TEST_SLOW'] ?? 1)
const ttlMs = 600 * slow

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
] as const)('the wall clock of %s jumps by an hour, again and again (trap 6)', (_, ofHolder, ofContender) => {
  test('a live holder keeps its lock, and a dead one is taken over from after its ttl, not before', async () => {
    const directory = await temporaryDirectory()
    const [holder, contender] = [await start(directory, ofHolder), await start(directory, ofContender)]
    const { lease, fence } = await holder.call('acquire', { lock: 'order' })
    const until = performance.now() + ttlMs * 3
    while (performance.now() < until) {
      expect(await contender.call('tryAcquire', { lock: 'order' })).toBeNull()
      await holder.call('assertHeld', { lease })
      await pass(20)
    }
    const waiting = contender.call('acquire', { lock: 'order', options: { waitMs: ttlMs * 10 } })
    await pass(50)
    const killedAt = performance.now()
    await holder.kill()
    const next = await waiting
    const tookMs = performance.now() - killedAt
    expect(next.fence).toBeGreaterThan(fence)
    // The last heartbeat is a third of the ttl old at most, and seen when it happened.
    expect(tookMs).toBeGreaterThan(ttlMs / 2)
    expect(tookMs).toBeLessThan(ttlMs + 500 * slow)
  }, 60_000)
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
