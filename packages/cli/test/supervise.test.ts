import { setTimeout as pass } from 'node:timers/promises'
import { createLocks } from '@locks/core'
import { memory } from '@locks/memory'
import { expect, onTestFinished, test } from 'vitest'
import type { RunningChild } from '../src/child.ts'
import { supervise } from '../src/supervise.ts'

/** Ends when it is told to. */
function fakeChild(onTerminate: (graceMs: number) => void): RunningChild {
  let end: (code: number) => void = () => undefined
  return {
    ended: new Promise((resolve) => (end = resolve)),
    pass: () => undefined,
    async terminate(graceMs) {
      onTerminate(graceMs)
      end(143)
    },
    stop: () => undefined,
    resume: () => undefined,
  }
}

test('a command gets SIGTERM before the reason is reported', async () => {
  const locks = createLocks(memory())
  onTestFinished(() => locks.close())
  const lease = await locks.lock('job').acquire({ renew: false })
  const steps: string[] = []
  const child = fakeChild(() => steps.push('terminated'))
  const supervised = supervise(child, lease, 5_000, { forward: () => undefined }, () => steps.push('told'))
  await locks.lock('job').break()
  await expect(lease.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' })
  expect(await supervised).toEqual({ code: 143, lost: true })
  expect(steps).toEqual(['terminated', 'told'])
})

test('a lease that begins with a short claim gives its command the whole grace period once it is extended', async () => {
  const locks = createLocks(memory())
  onTestFinished(() => locks.close())
  const lease = await locks.lock('job').acquire({ ttlMs: 3_000, renew: false })
  const graces: number[] = []
  const child = fakeChild((graceMs) => graces.push(graceMs))
  const supervised = supervise(child, lease, 5_000, { forward: () => undefined }, () => undefined)
  await lease.extend(30_000)
  // After the look that the short claim called for, which is due before this.
  await pass(2_500)
  await locks.lock('job').break()
  await expect(lease.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' })
  expect(await supervised).toEqual({ code: 143, lost: true })
  expect(graces).toEqual([5_000])
})
