import { fileStore } from '@locks/cas'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { atLength } from '../../../conformance/selection.ts'
import { folderOf } from '../src/stores/file-paths.ts'
import { temporaryDirectory } from './support/bed.ts'

const program = fileURLToPath(new URL('dying-writer.mjs', import.meta.url))
const value = JSON.stringify({ name: 'order', text: 'x'.repeat(200) })

/** Puts in a process that dies at its `dieAt`th file system call; answers whether it lived to the end. */
async function putAndDie(
  directory: string,
  key: string,
  expected: bigint | '',
  dieAt: number,
): Promise<boolean> {
  const args = [program, directory, key, value, String(expected), String(dieAt)]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  await once(child, 'exit')
  expect(child.exitCode === 0 || child.signalCode === 'SIGKILL', `exit code ${child.exitCode}`).toBe(true)
  return child.exitCode === 0
}

/** Every instruction a put can die at, some at a time, until it survives. Every third one in the usual run. */
async function atEveryCall(tryOne: (dieAt: number) => Promise<boolean>, atOnce = 4): Promise<number> {
  const step = atLength(3, 1)
  for (let from = 1; from < 100; from += atOnce * step) {
    const lived = await Promise.all(Array.from({ length: atOnce }, (_, n) => tryOne(from + n * step)))
    if (lived.includes(true)) return from + lived.indexOf(true) * step
  }
  throw new Error('it never came to its end')
}

test('killed at any call of a put, it leaves the old value or the new one, and a key that works', async () => {
  const directory = await temporaryDirectory()
  const store = fileStore({ directory })()
  const outcomes: string[] = []
  const calls = await atEveryCall(async (dieAt) => {
    const key = `order ${dieAt}`
    const made = await store.put(key, 'old', undefined, true)
    if (!('version' in made)) throw new Error('it was there')
    const lived = await putAndDie(directory, key, made.version, dieAt)
    const current = await store.get(key)
    expect(['old', value]).toContain(current?.value)
    outcomes[dieAt] = current?.value === 'old' ? '0' : '1'
    const next = await store.put(key, 'next', current?.version, true)
    expect(next).toHaveProperty('version')
    expect(await readdir(join(directory, folderOf(key))), 'left over').toHaveLength(1)
    return lived
  })
  // Not vacuous: there are deaths on both sides of one deciding call.
  expect(outcomes.join('')).toMatch(/^0{2,}1{2,}$/)
  expect(calls).toBeGreaterThan(8)
})

test('killed at any call while it makes a key, it leaves none or a whole one, and others can make it', async () => {
  const directory = await temporaryDirectory()
  const store = fileStore({ directory })()
  const outcomes: string[] = []
  await atEveryCall(async (dieAt) => {
    const key = `order ${dieAt}`
    const lived = await putAndDie(directory, key, '', dieAt)
    const current = await store.get(key)
    expect([undefined, value]).toContain(current?.value)
    outcomes[dieAt] = current === undefined ? '0' : '1'
    expect(await store.put(key, 'next', current?.version, true)).toHaveProperty('version')
    expect(await readdir(join(directory, folderOf(key))), 'left over').toHaveLength(1)
    return lived
  })
  expect(outcomes.join('')).toMatch(/^0{2,}1+$/)
  expect(await store.put('one more', 'x', undefined, true)).toHaveProperty('version')
  expect(await readdir(join(directory, '.floor', '0')), 'left over').toEqual([])
})

test('the next process that looks finishes the put of a dead winner', async () => {
  const directory = await temporaryDirectory()
  const [store, other] = [fileStore({ directory })(), fileStore({ directory })()]
  const made = await store.put('order', 'old', undefined, true)
  if (!('version' in made)) throw new Error('it was there')
  await atEveryCall(async (dieAt) => {
    const lived = await putAndDie(directory, 'order', made.version, dieAt)
    const files = await readdir(join(directory, folderOf('order')))
    const decided = !files.includes(String(made.version))
    if (decided) expect((await other.get('order'))?.value).toBe(value)
    return lived || decided
  }, 1)
  const [file = ''] = (await readdir(join(directory, folderOf('order')))).filter((name) => /^\d+$/.test(name))
  expect(await readFile(join(directory, folderOf('order'), file), 'utf8')).toBe(value)
})
