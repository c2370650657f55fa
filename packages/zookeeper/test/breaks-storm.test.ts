import { isLockError } from '@locks/core'
import type { Locks } from '@locks/core'
import { expect, test } from 'vitest'
import { lockName, testBed } from './support/bed.ts'
import { ms } from './support/raw-client.ts'

const bed = testBed()

const HOLDERS = 8
const OPERATORS = 4
/** The test ends after this many lost holds. */
const LOSSES = 20

test('operators break holds at random: exactly the broken holds are lost', async () => {
  const names = [lockName(), lockName()]
  const [released, lost, broken] = [new Set<bigint>(), new Set<bigint>(), new Set<bigint>()]
  const pick = (): string => names[Math.floor(Math.random() * names.length)] ?? ''

  async function hold(locks: Locks): Promise<void> {
    while (lost.size < LOSSES) {
      const lock = locks.lock(pick())
      const lease = Math.random() < 0.3 ? await lock.tryAcquire() : await lock.acquire({ waitMs: ms(30_000) })
      if (lease === null) continue
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 20))
      try {
        await lease.release()
        released.add(lease.fence)
      } catch (error) {
        if (!isLockError(error, 'LOCK_LOST')) throw error
        lost.add(lease.fence)
      }
    }
  }

  async function breakHolds(locks: Locks): Promise<void> {
    while (lost.size < LOSSES) {
      const holder = await locks.lock(pick()).break()
      if (holder?.fence !== undefined) broken.add(holder.fence)
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 4))
    }
  }

  // Each has its own session and connection, like a separate process.
  const holders = Array.from({ length: HOLDERS }, () => hold(bed.open()))
  const operators = Array.from({ length: OPERATORS }, () => breakHolds(bed.open()))
  await Promise.all([...holders, ...operators])

  const unexplained = [...lost].filter((fence) => !broken.has(fence))
  const survived = [...released].filter((fence) => broken.has(fence))
  expect({ unexplained, survived }).toEqual({ unexplained: [], survived: [] })
  expect(released.size).toBeGreaterThan(LOSSES)
})
