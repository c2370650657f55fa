import { cas, fileStore, memoryStore } from '@locks/cas'
import { createLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import { systemClock } from '@locks/core/adapter'
import { eventually } from '@locks/core/conformance'
import { mkdir, readdir, rename, rm, utimes, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as pass } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openClient } from '../../../conformance/test-support/clients.ts'
import { HandClock } from '../../../conformance/test-support/hand-clock.ts'
import { hammerPrune } from '../../../conformance/test-support/prune-hammer.ts'
import { folderOf } from '../src/stores/file-paths.ts'
import { bare, temporaryDirectory } from './support/bed.ts'

// Names that are not used any more leave one number for all of them.

const open = (directory: string, fenceIdleMs = 86_400_000): Locks =>
  openClient(cas(fileStore({ directory }), { fenceIdleMs }))

const keptIn = async (directory: string): Promise<readonly string[]> =>
  (await readdir(directory)).filter((entry) => !entry.startsWith('.'))

/** Names that were used long ago. */
async function used(directory: string, names: number): Promise<void> {
  const locks = open(directory)
  for (let n = 0; n < names; n += 1) await locks.with(`order ${n}`, () => undefined)
  for (const folder of await keptIn(directory)) await utimes(join(directory, folder), 1, 1)
}

test('an idle name leaves no file behind, and comes back with a higher fence', async () => {
  const directory = await temporaryDirectory()
  const locks = open(directory)
  const fences = new Map<string, bigint>()
  for (let n = 0; n < 100; n += 1)
    await locks.with(`order ${n}`, ({ fence }) => void fences.set(`order ${n}`, fence))
  const held = await locks.lock('held').acquire()
  expect(await locks.prune()).toBe(0)
  expect(await locks.prune({ idleMs: 0 })).toBe(100)
  expect(await keptIn(directory)).toEqual([folderOf('held')])
  await held.extend()
  await held.release()
  for (const [name, fence] of fences)
    await locks.with(name, (lease) => expect(lease.fence).toBeGreaterThan(fence))
})

test('a name that was there when the floor rose is dropped without raising it again', async () => {
  const directory = await temporaryDirectory()
  const locks = open(directory)
  for (const name of ['early', 'late']) await locks.with(name, () => undefined)
  expect(await locks.prune({ idleMs: 0, names: ['early'] })).toBe(1)
  const floor = await readdir(join(directory, '.floor'))
  expect(await locks.prune({ idleMs: 0, names: ['late'] })).toBe(1)
  expect(await keptIn(directory)).toEqual([])
  expect(await readdir(join(directory, '.floor'))).toEqual(floor)
})

test('a fence stays above those of dropped names although the clock of the host went back', async () => {
  const directory = await temporaryDirectory()
  const ahead = BigInt(Date.now() + 3_600_000) * 1_000n
  await open(directory).with('order', () => undefined)
  const folder = join(directory, folderOf('order'))
  const [version = ''] = await readdir(folder)
  await rename(join(folder, version), join(folder, String(ahead)))
  const locks = open(directory)
  expect(await locks.prune({ idleMs: 0 })).toBe(1)
  await locks.with('order', ({ fence }) => expect(fence).toBeGreaterThan(ahead))
  await locks.with('other', ({ fence }) => expect(fence).toBeGreaterThan(ahead))
})

test('clients prune idle names behind their releases', async () => {
  const directory = await temporaryDirectory()
  const locks = open(directory, 1_000)
  for (let n = 0; n < 30; n += 1) await locks.with(`order ${n}`, () => undefined)
  await eventually('idle names are dropped', 20_000, async () => {
    await locks.with('other', () => undefined)
    return (await keptIn(directory)).length <= 1
  })
})

test('a client that ends after one lock has pruned, if it was chosen', async () => {
  const directory = await temporaryDirectory()
  await used(directory, 5)
  const clock = { ...systemClock, random: () => 0 }
  const brief = createLocks(cas(fileStore({ directory })), { clock })
  await brief.with('last', () => undefined)
  await brief.close()
  expect(await keptIn(directory)).toEqual([folderOf('last')])
})

test('a pass that a client leaves when it closes is continued by the next one', async () => {
  const directory = await temporaryDirectory()
  await used(directory, 130)
  let dropped = 0
  for (let clients = 0; clients < 3; clients += 1) {
    const scan = fileStore({ directory })().prune?.(60_000, () => true, true)
    const { value } = (await scan?.next()) ?? {}
    dropped += value ?? 0
    await scan?.return()
  }
  expect(dropped).toBe(130)
  expect(await keptIn(directory)).toEqual([])
})

test('a process drops the names it released itself although another one has just looked for idle names', async () => {
  const directory = await temporaryDirectory()
  const locks = open(directory, 1_000)
  for (let n = 0; n < 30; n += 1) await locks.with(`order ${n}`, () => undefined)
  const mark = join(directory, '.pruned')
  await writeFile(mark, '')
  // In an hour: nobody looks through the directory until then.
  await utimes(mark, Date.now() / 1_000 + 3_600, Date.now() / 1_000 + 3_600)
  await eventually('idle names are dropped', 20_000, async () => {
    await locks.with('other', () => undefined)
    return (await keptIn(directory)).length <= 1
  })
})

test('a candidate of a process that died during the hold keeps no name from coming back', async () => {
  const directory = await temporaryDirectory()
  const locks = open(directory, 1_000)
  const lease = await locks.lock('order').acquire()
  const folder = join(directory, folderOf('order'))
  const candidate = join(folder, `${lease.fence + 1n}.00000000-0000-4000-8000-000000000000.next`)
  await writeFile(candidate, 'never in force')
  await lease.release()
  expect(await readdir(folder)).toHaveLength(2)
  await eventually('the value is dropped', 20_000, async () => {
    await locks.with('other', () => undefined)
    return (await readdir(folder)).length === 1
  })
  expect(await readdir(folder)).toEqual([basename(candidate)])
  expect(await locks.inspect('order')).toMatchObject({ held: false })
  await locks.with('order', async ({ fence }) => {
    expect(fence).toBeGreaterThan(lease.fence + 1n)
    expect(await readdir(folder)).toEqual([String(fence)])
  })
})

test('a name that another process took after the release is not dropped', async () => {
  const directory = await temporaryDirectory()
  const [store, other] = [fileStore({ directory })(), fileStore({ directory })()]
  const made = await store.put('order', 'free', undefined, true, 1)
  if (!('version' in made)) throw new Error('it was there')
  const taken = await other.put('order', 'held', made.version, true)
  for await (const dropped of store.prune?.(1, () => false, true) ?? []) expect(dropped).toBe(0)
  expect(await other.get('order')).toEqual({ value: 'held', ...taken })
})

test('versions rise while processes drop what they released', async () => {
  const directory = await temporaryDirectory()
  let [highest, dropped] = [0n, 0]
  const use = async (): Promise<void> => {
    const store = fileStore({ directory })()
    for (let n = 0; n < 300; n += 1) {
      const current = await store.get('order')
      const before = highest
      const put = await store.put('order', `${n}`, current?.version, false, 1)
      if ('version' in put) {
        expect(put.version).toBeGreaterThan(before)
        if (put.version > highest) highest = put.version
      }
      await pass(Math.random() * 4)
      for await (const some of store.prune?.(60_000, () => false, true) ?? []) dropped += some
    }
    await store.close()
  }
  await Promise.all([use(), use(), use(), use()])
  expect(dropped).toBeGreaterThan(20)
})

test('the record of a holder that died is dropped once it stood still for its whole length', async () => {
  const directory = await temporaryDirectory()
  const clock = new HandClock()
  const dead = bare(fileStore({ directory }), clock)
  await dead.take(dead.request({ ttlMs: 5_000 }))
  const other = bare(fileStore({ directory }), clock)
  const prune = async (): Promise<unknown> => (await other.adapter.prune?.(0))?.pruned
  expect(await prune()).toBe(0)
  clock.move(4_999)
  expect(await prune()).toBe(0)
  clock.move(1)
  expect(await prune()).toBe(1)
  expect(await keptIn(directory)).toEqual([])
})

test('what a process that died left of a key, or of dropping one, is removed', async () => {
  const directory = await temporaryDirectory()
  const locks = open(directory)
  await locks.with('used', () => undefined)
  const id = '00000000-0000-4000-8000-000000000000'
  const folder = join(directory, folderOf('dropped'))
  await mkdir(folder)
  await writeFile(join(folder, `2.${id}.next`), 'never came to be')
  await mkdir(join(directory, folderOf('empty')))
  const candidate = join(directory, '.floor', '0', `${folderOf('never made')}.${id}`)
  await mkdir(candidate)
  await utimes(candidate, 1, 1)
  expect((await locks.inspect('dropped')).held).toBe(false)
  for (const name of ['dropped', 'empty']) await locks.with(name, () => undefined)
  await mkdir(join(directory, folderOf('empty too')))
  await utimes(join(directory, folderOf('empty too')), 1, 1)
  await locks.prune({ idleMs: 60_000 })
  expect((await keptIn(directory)).toSorted()).toEqual(['dropped', 'empty', 'used'].map(folderOf).toSorted())
  expect(await readdir(join(directory, '.floor', '0'))).toEqual([])
})

test('a name that is dropped while others acquire it has one holder, and its fences rise', async () => {
  const directory = await temporaryDirectory()
  await hammerPrune(() => open(directory), 'again', { tries: 300, atLeast: 50 })
})

test('a key that is being created is not removed as one of a process that died', async () => {
  const directory = await temporaryDirectory()
  const [idleMs, lost]: [number, string[]] = [1, []]
  let users = 4
  const create = async (user: number): Promise<void> => {
    const store = fileStore({ directory })()
    for (let n = 0; n < 80; n += 1) {
      const key = `order ${user} ${n}`
      const put = await store.put(key, 'held', undefined, true)
      const current = await store.get(key)
      if (!('version' in put) || current?.version !== put.version) lost.push(key)
      await rm(join(directory, folderOf(key)), { recursive: true, force: true })
    }
    users -= 1
    await store.close()
  }
  const prune = async (): Promise<void> => {
    const store = fileStore({ directory })()
    while (users > 0)
      for await (const dropped of store.prune?.(idleMs, () => false, false) ?? []) expect(dropped).toBe(0)
    await store.close()
  }
  await Promise.all([create(1), create(2), create(3), create(4), prune(), prune()])
  expect(lost).toEqual([])
})

test('the store in memory keeps as little', async () => {
  const store = memoryStore()
  const openOne = (): Locks => {
    const locks = createLocks(cas(store))
    onTestFinished(() => locks.close())
    return locks
  }
  await hammerPrune(openOne, 'again', { tries: 300, atLeast: 50 })
})
