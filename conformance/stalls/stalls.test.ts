import { conformance, isVoidRun } from '@locks/core/conformance'
import type { ConformanceCase, Subject } from '@locks/core/conformance'
import { setTimeout as pass } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { redlockSubjects } from '../../packages/redlock/test/support/subject.ts'
import { singleSubject } from '../../packages/redis/test/support/subjects.ts'
import { breed } from '../mutants/mutant.ts'
import { storeMutants } from '../mutants/store-mutants.ts'
import { isAdapterSelected } from '../selection.ts'
import { startService } from '../services/index.ts'
import type { Service } from '../services/index.ts'
import { childrenWith, keepBusy, stopFor } from './stop.ts'

async function caseOf(subject: Subject, id: string): Promise<ConformanceCase> {
  const found = (await conformance(subject)).find((one) => one.id === id)
  if (found === undefined) throw new Error(`no rule ${id}`)
  return found
}

function pidsOf({ servers }: Service): readonly number[] {
  return servers.flatMap(({ pid }) => (pid === undefined ? [] : [pid]))
}

/** Resolves once the rule has started so many processes and one of them has gone. */
async function untilOneIsKilled(count: number): Promise<void> {
  while (childrenWith('conformance/child.js').length < count) await pass(10)
  while (childrenWith('conformance/child.js').length >= count) await pass(5)
}

/** Runs the case, and stands something still once. Returns why runs were void. */
async function voidsOf(one: ConformanceCase, standStill: () => Promise<void>): Promise<readonly string[]> {
  const voids: string[] = []
  await Promise.all([one.run({ onVoid: ({ message }) => void voids.push(message) }), standStill()])
  return voids
}

describe.skipIf(process.platform !== 'linux')('a machine that stands still never fails a rule', () => {
  test.runIf(isAdapterSelected('redlock'))('CRASH-3 while the servers of a Redlock stand still', async () => {
    const { subject, service } = await redlockSubjects(5)
    onTestFinished(() => service.close())
    const voids = await voidsOf(await caseOf(subject, 'CRASH-3'), async () => {
      await untilOneIsKilled(6)
      await stopFor(pidsOf(service), 4_000)
    })
    expect(voids[0]).toMatch(/the server stood still for/)
  })

  test.runIf(isAdapterSelected('zookeeper'))(
    'LOST-7 while the server of ZooKeeper stands still',
    async () => {
      const service = await startService('zookeeper', { needsControl: true })
      onTestFinished(() => service.close())
      const servers = service.url.replace('zookeeper://', '')
      const config = { adapter: '@locks/zookeeper', servers, sessionTimeoutMs: 4_000 }
      const lost = await caseOf({ name: 'zookeeper', config, ttlMs: 4_000 }, 'LOST-7')
      await voidsOf(lost, async () => {
        await pass(100)
        // Longer than a session lasts, and than a bare adapter is asked again.
        await stopFor(pidsOf(service), 12_000)
      })
    },
  )

  test.runIf(isAdapterSelected('redis'))('CRASH-2 while a child stands still', async () => {
    const { subject, service } = await singleSubject()
    onTestFinished(() => service.close())
    await voidsOf(await caseOf(subject, 'CRASH-2'), async () => {
      while (childrenWith('conformance/child.js').length === 0) await pass(5)
      await stopFor(childrenWith('conformance/child.js'), 6_000)
    })
  })
})

test('a store that frees 300 ms late fails beside a busy machine, and is not excused by it', async () => {
  const late = storeMutants.find(({ bug }) => bug.includes('300 ms late'))
  if (late === undefined) throw new Error('no such mutant')
  const { cases, dispose } = await breed(late.edits)
  onTestFinished(dispose)
  const rule = cases.find(({ id }) => id === late.rule)
  keepBusy(8)
  const error: unknown = await rule?.run().catch((reason: unknown) => reason)
  // No attempt fell into those 300 ms, in three runs: neither failed nor excused, and this test runs again.
  if (isVoidRun(error)) throw error
  expect(error).toMatchObject({ name: 'LateError' })
  expect(String(error)).toMatch(/1,250 ms \(ttlMs \+ 250 ms\)/)
})
