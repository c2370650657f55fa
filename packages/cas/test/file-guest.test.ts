import { cas, fileStore } from '@locks/cas'
import { createLocks } from '@locks/core'
import { systemClock } from '@locks/core/adapter'
import { lstat, mkdir, readdir, readFile, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { copyOf } from '../../../conformance/mutants/mutant.ts'
import type { Edit } from '../../../conformance/mutants/mutant.ts'
import { folderOf } from '../src/stores/file-paths.ts'
import { temporaryDirectory } from './support/bed.ts'

// A directory that another program also uses: nothing of it changes.

const MD5 = 'd41d8cd98f00b204e9800998ecf8427e'
const ID = '00000000-0000-4000-8000-000000000000'
const FREE = JSON.stringify({ name: 'bob', freed: { client: 'c', write: 1 } })

/** By path; undefined is an empty folder. */
const foreign: Readonly<Record<string, string | undefined>> = {
  empty: undefined,
  'users/1': '{"name":"bob"}',
  'users/2': FREE,
  [`users/3.${ID}.next`]: 'x',
  [`drafts/3.${ID}.next`]: 'x',
  'nested/deep/empty': undefined,
  [`cache-${MD5}`]: undefined,
  [`${MD5}-cache`]: undefined,
  [`a_b-${MD5}`]: undefined,
  [`named-${MD5}/1`]: '{"name":"bob"}',
  [`freed-${MD5}/1`]: FREE,
  [`text-${MD5}/1`]: 'text',
  [`${folderOf('strict')}/1`]: '{"name":"strict"}',
  [`${folderOf('half')}/1`]: '{"name":"half","freed":true}',
  '17': 'text',
  'order.lock': '',
  '.hidden/1': FREE,
}

async function settle(directory: string, shapes: typeof foreign): Promise<void> {
  for (const [path, content] of Object.entries(shapes)) {
    const full = join(directory, path)
    await mkdir(content === undefined ? full : dirname(full), { recursive: true })
    if (content !== undefined) await writeFile(full, content)
  }
  for (const path of (await readdir(directory, { recursive: true })).toReversed())
    await utimes(join(directory, path), 1, 1)
}

/** Everything that is not ours: its time and its content. */
async function snapshot(directory: string): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>()
  for (const path of await readdir(directory, { recursive: true })) {
    // Ours.
    if (['.floor', '.pruned', folderOf('order')].some((own) => path.startsWith(own))) continue
    const full = join(directory, path)
    const stats = await lstat(full)
    const content = stats.isFile() ? await readFile(full, 'utf8') : 'a folder'
    found.set(path, `${stats.mtimeMs} ${stats.mode} ${content}`)
  }
  return found
}

async function useAll(
  directory: string,
  open: typeof cas = cas,
  store: typeof fileStore = fileStore,
): Promise<void> {
  // Random 0: it prunes after its first release.
  const clock = { ...systemClock, random: () => 0 }
  const locks = createLocks(open(store({ directory })), { clock })
  await locks.with('order', () => undefined)
  await locks.lock('order').acquire()
  expect((await locks.list()).map(({ name }) => name)).toEqual(['order'])
  expect(await locks.lock('order').break()).not.toBeNull()
  await locks.inspect('bob')
  await locks.diagnose()
  await locks.prune()
  await locks.prune({ idleMs: 0 })
  await locks.close()
}

describe('a directory that is shared with another program', () => {
  test('loses and changes nothing by any call', async () => {
    const directory = await temporaryDirectory()
    await settle(directory, foreign)
    const before = await snapshot(directory)
    await useAll(directory)
    expect(await snapshot(directory)).toEqual(before)
  })

  test('may have a file with the name of our mark', async () => {
    const directory = await temporaryDirectory()
    await settle(directory, { ...foreign, '.pruned': 'text' })
    const before = await snapshot(directory)
    await useAll(directory)
    expect(await snapshot(directory)).toEqual(before)
    expect(await readFile(join(directory, '.pruned'), 'utf8')).toBe('text')
  })

  test('may have a folder that is named like ours, with folders that are named like our files', async () => {
    const directory = await temporaryDirectory()
    await settle(directory, { [`years-${MD5}/2024/report`]: 'text' })
    const before = await snapshot(directory)
    await useAll(directory)
    expect(await snapshot(directory)).toEqual(before)
  })
})

const mutants: readonly (readonly [string, Edit])[] = [
  [
    'every folder is that of a key',
    {
      file: 'cas/stores/file-paths.js',
      find: 'return /^[a-zA-Z0-9_-]{0,40}-[0-9a-f]{32}$/.test(folder);',
      replace: "return !folder.startsWith('.');",
    },
  ],
  [
    'a record of another key is dropped',
    {
      file: 'cas/stores/file-paths.js',
      find: 'name !== undefined && folderOf(name) !== folder',
      replace: 'false',
    },
  ],
  [
    'every empty folder is that of a key',
    { file: 'cas/stores/file-prune.js', find: 'isCertain(basename(folder))', replace: 'true' },
  ],
  [
    'any JSON with a name is free',
    { file: 'cas/record.js', find: "isFreed(parsed['freed'])", replace: 'true' },
  ],
  [
    'any file may be the mark',
    { file: 'cas/stores/file-prune.js', find: 'found.isFile() && found.size === 0', replace: 'true' },
  ],
]

test.each(mutants)('is noticed: %s', async (_, edit) => {
  const directory = await temporaryDirectory()
  await settle(directory, { ...foreign, '.pruned': 'text' })
  const before = await snapshot(directory)
  const mutant = await copyOf(['core', 'cas'], [edit])
  onTestFinished(mutant.dispose)
  const loaded: unknown = await mutant.load('cas', 'index.js')
  if (!isCas(loaded)) throw new Error('the mutant has no adapter')
  await useAll(directory, loaded.cas, loaded.fileStore)
  const marked = await readFile(join(directory, '.pruned'), 'utf8')
  expect({ after: await snapshot(directory), marked }).not.toEqual({ after: before, marked: 'text' })
})

function isCas(module: unknown): module is { cas: typeof cas; fileStore: typeof fileStore } {
  return typeof module === 'object' && module !== null && 'cas' in module && 'fileStore' in module
}
