import { createLocks } from '@locks/core'
import { zookeeper } from '@locks/zookeeper'
import { realpath, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { ACL, CreateMode } from 'node-zookeeper-client'
import { expect, onTestFinished, test } from 'vitest'
import { copyOf } from '../../../conformance/mutants/mutant.ts'
import { directoryOf } from '../src/paths.ts'
import { testBed } from './support/bed.ts'
import { ms, until } from './support/raw-client.ts'
import type { RawClient } from './support/raw-client.ts'

// A base path that another program also uses: its nodes stay.

const bed = testBed()

async function create({ client }: RawClient, path: string, data: string): Promise<void> {
  await new Promise<void>((resolve, reject) =>
    client.create(path, Buffer.from(data), ACL.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, (error) =>
      error ? reject(error) : resolve(),
    ),
  )
}

async function snapshot(raw: RawClient, paths: readonly string[]): Promise<readonly unknown[]> {
  const look = (path: string): Promise<unknown> =>
    new Promise((resolve, reject) =>
      raw.client.getData(path, (error, data, stat) =>
        error ? reject(error) : resolve([path, String(data), stat.czxid.toString('hex'), stat.version]),
      ),
    )
  return Promise.all(paths.map(look))
}

interface Used {
  /** The nodes of others. */
  readonly before: readonly unknown[]
  readonly after: readonly unknown[]
  /** What each prune removed. */
  readonly pruned: readonly number[]
}

async function useAmongOthers(basePath: string, adapter: typeof zookeeper): Promise<Used> {
  const raw = await bed.raw()
  await create(raw, basePath, '')
  // `was` had a child, as the directory of a lock that is free.
  const names = ['config', 'data', 'empty', 'locked empty', 'was', 'json']
  const paths = names.map((name) => directoryOf(name, { basePath, rawPath: false }))
  const contents = ['foreign', 'foreign', '', '', '', '{"owner":"us","version":1}']
  for (const [n, path] of paths.entries()) await create(raw, path, contents[n] ?? '')
  await raw.createMember(`${paths[4]}/child-`).then((child) => raw.remove(child))
  const before = await snapshot(raw, paths)
  const locks = createLocks(adapter({ servers: bed.servers, basePath }), { storeTimeoutMs: ms(30_000) })
  onTestFinished(() => locks.close())
  for (const name of ['config', 'locked empty', 'ours']) {
    await locks.with(name, () => undefined)
    await locks.lock(name).acquire()
    await locks.lock(name).break()
    await locks.inspect(name)
  }
  await locks.list()
  await locks.diagnose()
  const ours = directoryOf('ours', { basePath, rawPath: false })
  // The others fell due before it.
  await until('our own directory is removed', 20_000, async () => (await raw.stat(ours)) === null)
  const pruned = [await locks.prune(), await locks.prune({ names })]
  await locks.with('config', () => undefined)
  await locks.close()
  const looks = paths.map((path) => snapshot(raw, [path]).catch(() => [`${path} is gone`]))
  return { before, after: (await Promise.all(looks)).flat(), pruned }
}

test('nodes of other programs stay, with any content, also if their name was locked', async () => {
  const { before, after, pruned } = await useAmongOthers('/app', zookeeper)
  expect(after).toEqual(before)
  expect(pruned).toEqual([0, 0])
})

test('a janitor that removes any empty directory is noticed', async () => {
  const mark = {
    file: 'zookeeper/own-directories.js',
    find: 'data?.equals(MARK) === true',
    replace: 'true',
  }
  const mutant = await copyOf(['core', 'zookeeper'], [mark])
  onTestFinished(mutant.dispose)
  const client = 'node-zookeeper-client'
  await symlink(
    await realpath(join(import.meta.dirname, '../node_modules', client)),
    join(mutant.root, 'node_modules', client),
  )
  const loaded: unknown = await mutant.load('zookeeper', 'index.js')
  if (!isZookeeper(loaded)) throw new Error('the mutant has no adapter')
  const { before, after } = await useAmongOthers('/mutant', loaded.zookeeper)
  expect(after).not.toEqual(before)
  expect(after).toContainEqual(expect.stringMatching(/ is gone$/))
})

function isZookeeper(module: unknown): module is { zookeeper: typeof zookeeper } {
  return typeof module === 'object' && module !== null && 'zookeeper' in module
}

test('our own directories are removed when a client closes, whichever client created them', async () => {
  const [basePath, raw] = ['/closing', await bed.raw()]
  const [first, last] = [bed.open({ basePath }), bed.open({ basePath })]
  await first.with('shared', async () => expect(await last.lock('shared').tryAcquire()).toBeNull())
  await last.with('shared', () => undefined)
  await last.with('own', () => undefined)
  await last.close()
  expect(await raw.children(basePath)).toEqual([])
})

test('prune removes the directories that a crash left', async () => {
  const basePath = '/crashed'
  const { request, take } = bed.adapter({ basePath })
  for (const name of ['a', 'b']) await take(request(name))
  const raw = await bed.raw()
  const nodes = ['a', 'b'].map((name) => `${basePath}/${name}`)
  const locks = bed.open({ basePath })
  expect(await locks.prune()).toBe(0)
  // As when their session ends: nobody is there to remove the directories.
  for (const node of nodes)
    for (const child of (await raw.children(node)) ?? []) await raw.remove(`${node}/${child}`)
  expect((await locks.diagnose()).find(({ check }) => check === 'leftovers')?.message).toMatch(
    /^2 free locks have a directory/,
  )
  expect(await locks.prune()).toBe(2)
  expect(await raw.children(basePath)).toEqual([])
})

test('empty nodes that may be of a version without marks stay, and operators learn of them', async () => {
  const [basePath, raw] = ['/unmarked', await bed.raw()]
  await create(raw, basePath, '')
  const pathOf = (name: string): string => directoryOf(name, { basePath, rawPath: false })
  const names = ['a/b', 'old', 'data', 'never used', 'in use']
  for (const name of names) await create(raw, pathOf(name), name === 'data' ? 'foreign' : '')
  await create(raw, `${basePath}/%2`, '')
  for (const path of [...['a/b', 'old', 'data'].map(pathOf), `${basePath}/%2`])
    await raw.createMember(`${path}/child-`).then((child) => raw.remove(child))
  const { adapter, request, take } = bed.adapter({ basePath })
  await take(request('in use'))
  const leftovers = async (): Promise<unknown> =>
    (await adapter.diagnose?.())?.find(({ check }) => check === 'leftovers')
  const message =
    '0 free locks have a directory; 2 empty nodes may be directories of an earlier version, and stay'
  expect(await leftovers()).toMatchObject({ level: 'ok', message })
  const why: unknown = expect.stringMatching(/may belong to another program.*remove/)
  const kept = { pruned: 0, more: false, kept: { names: 2, why } }
  expect(await adapter.prune?.(0)).toEqual(kept)
  expect(await adapter.prune?.(0, names)).toEqual(kept)
  expect(await adapter.prune?.(0, ['data'])).toEqual({ pruned: 0, more: false })
  for (let n = 0; n < 98; n += 1) {
    await create(raw, pathOf(`old ${n}`), '')
    await raw.createMember(`${pathOf(`old ${n}`)}/child-`).then((child) => raw.remove(child))
  }
  const advice: unknown = expect.stringContaining('by hand')
  expect(await leftovers()).toMatchObject({
    level: 'warning',
    message: message.replace('2 empty', '100 empty'),
    advice,
  })
})
