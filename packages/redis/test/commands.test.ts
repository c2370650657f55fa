import type { Lease } from '@locks/core'
import { assertInTime } from '@locks/core/conformance'
import { setTimeout as pass } from 'node:timers/promises'
import { join } from 'node:path'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { atLength, scope } from '../../../conformance/selection.ts'
import { startService } from '../../../conformance/services/index.ts'
import { at, commandCounts, connect, startProcess, uniqueName } from './support/bed.ts'

// Counted at the server, so that a busy machine changes nothing.
const service = await startService('redis')
afterAll(() => service.close())
const server = service.server('redis')

test('an uncontended acquire and release are two commands, fencing included', async () => {
  const locks = connect(at(server))
  await locks.with(uniqueName(), () => undefined)
  const before = await commandCounts(server)
  for (let n = 0; n < 100; n += 1) await locks.with(uniqueName(), () => undefined)
  const after = await commandCounts(server)
  expect(after.total - before.total).toBe(200)
  expect(after['eval']).toBe(before['eval'])
})

test('with minHoldMs they are two as well, and a try that finds the name taken is one', async () => {
  const locks = connect(at(server))
  await locks.once(uniqueName(), { minHoldMs: 60_000 }, () => undefined)
  const before = await commandCounts(server)
  const names = Array.from({ length: 100 }, () => uniqueName())
  for (const name of names) await locks.once(name, { minHoldMs: 60_000 }, () => undefined)
  for (const name of names) expect((await locks.once(name, { minHoldMs: 1 }, () => 1)).ran).toBe(false)
  const after = await commandCounts(server)
  expect(after.total - before.total).toBe(300)
})

for (const waiters of scope() === 'all' ? [10, 100, 500] : [10, 100])
  test(`with ${waiters} waiters in five processes a contended cycle is at most 2.1 commands`, async () => {
    const directory = await mkdtemp(join(tmpdir(), 'locks-commands-'))
    onTestFinished(() => rm(directory, { recursive: true, force: true }))
    const counter = join(directory, 'counter')
    await writeFile(counter, '0')
    const processes = 5
    const cycles = Math.ceil(atLength(600, 2_000) / waiters)
    const children = await Promise.all(
      Array.from({ length: processes }, () => startProcess(at(server), { ttlMs: 30_000 })),
    )
    const lock = uniqueName()
    const load = { lock, tasks: waiters / processes, cycles, waitMs: 100_000, counter }
    const contend = (label: string) =>
      Promise.all(
        children.map((child, n) => {
          const file = join(directory, `${label}-${n}.jsonl`)
          return child.call('contend', { ...load, process: `${n}`, file })
        }),
      )
    // The first round connects, loads the scripts and subscribes.
    await Promise.all(children.map((child) => child.call('tryAcquire', { lock: uniqueName() })))
    const before = await commandCounts(server)
    await contend('measured')
    const after = await commandCounts(server)
    const perCycle = (after.total - before.total) / (waiters * cycles)
    console.log(`${waiters} waiters: ${perCycle.toFixed(3)} commands per contended cycle`)
    expect(perCycle).toBeLessThanOrEqual(2.1)
  })

const held = atLength(4_000, 10_000)

test(`${held} held leases of 30 s are renewed with at most ${held / 500} commands a second`, async () => {
  const locks = connect(at(server), { ttlMs: 30_000 })
  const leases: Lease[] = []
  while (leases.length < held)
    leases.push(...(await Promise.all(Array.from({ length: 500 }, () => locks.lock(uniqueName()).acquire()))))
  const before = await commandCounts(server)
  const start = performance.now()
  await pass(21_000)
  const perSecond =
    ((await commandCounts(server)).total - before.total) / ((performance.now() - start) / 1_000)
  console.log(`${held} leases: ${perSecond.toFixed(2)} renewal commands per second`)
  const shortestMs = Math.min(...leases.map(({ remainingMs }) => remainingMs))
  await assertInTime('the renewal of every lease', { ms: 15_000, from: 'half a ttl' }, 30_000 - shortestMs)
  expect(perSecond).toBeGreaterThan(0)
  expect(perSecond).toBeLessThanOrEqual(held / 500)
})
