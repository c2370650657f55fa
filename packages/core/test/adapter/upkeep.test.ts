import { EARLY_SHARE, PruneSteps, Upkeep } from '@locks/core/adapter'
import type { Pruned } from '@locks/core/adapter'
import { expect, test } from 'vitest'
import { HandClock } from '../../../../conformance/test-support/hand-clock.ts'

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** An upkeep of which the test ends the steps, and what it did. */
function bed(
  idleMs: number,
  random = 0.5,
): {
  readonly clock: HandClock
  readonly upkeep: Upkeep
  readonly steps: { readonly end: (step: Pruned) => void; readonly fail: (reason: Error) => void }[]
} {
  const clock = new HandClock()
  clock.random = () => random
  const steps: ReturnType<typeof bed>['steps'] = []
  const step = (): Promise<Pruned> =>
    new Promise((resolve, reject) => steps.push({ end: resolve, fail: reject }))
  return { clock, steps, upkeep: new Upkeep(clock, idleMs, step) }
}

test('a release prunes only when it is time to, and one step at a time', async () => {
  const { clock, upkeep, steps } = bed(80_000)
  upkeep.released()
  clock.move(4_999)
  upkeep.released()
  expect(steps).toHaveLength(0)
  clock.move(10_000)
  for (let n = 0; n < 5; n += 1) upkeep.released()
  clock.move(1_000_000)
  upkeep.released()
  expect(steps).toHaveLength(1)
  steps[0]?.end({ pruned: 0, more: false })
  await turn()
  clock.move(9_999)
  upkeep.released()
  expect(steps).toHaveLength(1)
  clock.move(1)
  upkeep.released()
  expect(steps).toHaveLength(2)
})

test('one client in 256 prunes after its first release, and goes on as the others do', async () => {
  const others = bed(80_000, EARLY_SHARE)
  others.upkeep.released()
  expect(others.steps).toHaveLength(0)
  const { clock, upkeep, steps } = bed(80_000, EARLY_SHARE - 1e-9)
  upkeep.released()
  upkeep.released()
  expect(steps).toHaveLength(1)
  steps[0]?.end({ pruned: 3, more: false })
  await turn()
  clock.move(9_999)
  upkeep.released()
  expect(steps).toHaveLength(1)
  clock.move(1)
  upkeep.released()
  expect(steps).toHaveLength(2)
  const never = bed(0, 0)
  never.upkeep.released()
  expect(never.steps).toHaveLength(0)
})

test('while there is more to prune every release may start a step; one that failed is followed by a pause', async () => {
  const { clock, upkeep, steps } = bed(80_000)
  clock.move(10_000)
  upkeep.released()
  steps[0]?.end({ pruned: 500, more: true })
  await turn()
  upkeep.released()
  expect(steps).toHaveLength(2)
  steps[1]?.fail(new Error('no right to delete'))
  await turn()
  upkeep.released()
  expect(steps).toHaveLength(2)
  clock.move(10_000)
  upkeep.released()
  expect(steps).toHaveLength(3)
})

test('an idle time of 0 prunes nothing, and a long one looks every ten minutes all the same', () => {
  const never = bed(0)
  never.clock.move(1e12)
  never.upkeep.released()
  expect(never.steps).toHaveLength(0)
  const year = bed(31_536_000_000)
  year.clock.move(600_000)
  year.upkeep.released()
  expect(year.steps).toHaveLength(1)
})

test('close waits for the step that is under way, and no other begins', async () => {
  const { clock, upkeep, steps } = bed(80_000)
  clock.move(10_000)
  upkeep.released()
  let closed = false
  const closing = upkeep.close().then(() => (closed = true))
  await turn()
  expect(closed).toBe(false)
  steps[0]?.end({ pruned: 500, more: true })
  await closing
  upkeep.released()
  expect(steps).toHaveLength(1)
})

test('close waits a second for a step that does not end', async () => {
  const { clock, upkeep, steps } = bed(80_000, 0)
  upkeep.released()
  let closed = false
  const closing = upkeep.close().then(() => (closed = true))
  clock.move(999)
  await turn()
  expect(closed).toBe(false)
  clock.move(1)
  await closing
  steps[0]?.end({ pruned: 500, more: true })
  await turn()
  upkeep.released()
  expect(steps).toHaveLength(1)
})

test('a long look is made in steps, each from where the last one stopped, and begins anew after a failure', async () => {
  const clock = new HandClock()
  const looks: number[] = []
  const steps = new PruneSteps(clock, async function* (idleMs) {
    looks.push(idleMs)
    for (let page = 1; page <= 3; page += 1) {
      clock.move(150)
      if (idleMs === 13) throw new Error('out of reach')
      yield page
    }
  })
  expect(await steps.step(7)).toEqual({ pruned: 3, more: true })
  expect(await steps.step(7)).toEqual({ pruned: 3, more: false })
  expect(looks).toEqual([7])
  await expect(steps.step(13)).rejects.toThrow('out of reach')
  await expect(steps.step(13)).rejects.toThrow('out of reach')
  expect(looks).toEqual([7, 13, 13])
})

test('looks with other idle times or names go on beside each other, and close ends all of them', async () => {
  const clock = new HandClock()
  const begun: number[] = []
  const ended: number[] = []
  const steps = new PruneSteps(clock, async function* (idleMs) {
    begun.push(idleMs)
    try {
      for (let page = 1; page <= 2; page += 1) {
        clock.move(200)
        yield page
      }
    } finally {
      ended.push(idleMs)
    }
  })
  for (const pruned of [1, 2])
    for (const idleMs of [7, 13]) expect(await steps.step(idleMs)).toEqual({ pruned, more: true })
  expect(await steps.step(7)).toEqual({ pruned: 0, more: false })
  expect([begun, ended]).toEqual([[7, 13], [7]])
  await steps.step(19)
  await steps.close()
  expect(ended.toSorted((a, b) => a - b)).toEqual([7, 13, 19])
})
