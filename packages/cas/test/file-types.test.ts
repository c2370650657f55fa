import { fileStore } from '@locks/cas'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { copyOf } from '../../../conformance/mutants/mutant.ts'
import { folderOf } from '../src/stores/file-paths.ts'
import { temporaryDirectory } from './support/bed.ts'
import { withoutTypes } from './support/typeless.ts'

// A directory that tells no types. One test at a time: they replace a function of the whole process.

/** What a look at a held key finds while its holder renews it, `times` times just after the names were read. */
async function lookDuring(times: number, open: typeof fileStore = fileStore): Promise<unknown> {
  const directory = await temporaryDirectory()
  const holder = fileStore({ directory })()
  let left = times
  let put = await holder.put('order', 'held', undefined, true)
  const renew = async (): Promise<void> => {
    if (left === 0 || !('version' in put)) return
    left -= 1
    put = await holder.put('order', 'held', put.version, false)
  }
  const restore = withoutTypes(join(directory, folderOf('order')), renew)
  onTestFinished(restore)
  const found = await open({ directory })().get('order').finally(restore)
  return { value: found?.value, isRenewed: 'version' in put, left }
}

test.each([1, 2, 5])('a key that is renewed during a look is there, %i times', async (times) => {
  expect(await lookDuring(times)).toEqual({ value: 'held', isRenewed: true, left: 0 })
})

test('keys are listed although one of them goes meanwhile', async () => {
  const directory = await temporaryDirectory()
  const store = fileStore({ directory })()
  for (const key of ['gone', 'kept']) await store.put(key, key, undefined, true)
  const gone = join(directory, folderOf('gone'))
  onTestFinished(withoutTypes(directory, () => rm(gone, { recursive: true, force: true })))
  const values: string[] = []
  for await (const { value } of store.values?.() ?? []) values.push(value)
  expect(values).toEqual(['kept'])
})

test('is noticed: a file that went during the look is left out', async () => {
  const mutant = await copyOf(
    ['core', 'cas'],
    [
      {
        file: 'cas/stores/file-folder.js',
        find: 'found === undefined || found.isFile()',
        replace: 'found?.isFile()',
      },
    ],
  )
  onTestFinished(mutant.dispose)
  const loaded: unknown = await mutant.load('cas', 'index.js')
  if (!hasStore(loaded)) throw new Error('the mutant has no store')
  expect(await lookDuring(5, loaded.fileStore)).toMatchObject({ value: undefined, isRenewed: true })
})

function hasStore(module: unknown): module is { fileStore: typeof fileStore } {
  return typeof module === 'object' && module !== null && 'fileStore' in module
}
