import { batchesOf, ok } from '@locks/core/adapter'
import type { Finding, Versioned } from '@locks/core/adapter'
import { lstat, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Floor } from './file-floor.ts'
import { drop, foldersIn, read, removeIfEmpty } from './file-folder.ts'
import { ifThere } from './file-io.ts'
import { folderOf, isCertain, isForeign, PRUNED } from './file-paths.ts'
import type { Idle, Released } from './file-released.ts'

/** How many keys are looked at before the idle ones are dropped: the floor is raised once per batch. */
const BATCH = 64

/** How often per idle time the processes of a host, together, look through the directory in the background. */
const PASSES_PER_IDLE = 2

/** How many keys a finding looks at. */
const MOST_KEPT = 10_000

interface Pruning {
  readonly idleMs: number
  readonly isOver: (current: Versioned) => boolean
  readonly background: boolean
  readonly keys?: readonly string[]
}

/**
 * How long ago a folder last changed; undefined if it is gone. By the wall clock, so never for safety. It counts whole
 * milliseconds, and the time of a change has fractions.
 */
async function ageMs(path: string): Promise<number | undefined> {
  const found = await ifThere(stat(path))
  return found && Math.max(0, Date.now() - found.mtimeMs)
}

/** Whether the mark is ours, or not there. */
async function isEmptyFile(path: string): Promise<boolean> {
  const found = await ifThere(lstat(path))
  return found === undefined || (found.isFile() && found.size === 0)
}

export async function* pruneFolders(
  directory: string,
  floor: Floor,
  released: Released,
  { idleMs, isOver, background, keys }: Pruning,
): AsyncGenerator<number, void> {
  if (background) yield* dropReleased(directory, floor, released)
  const mark = join(directory, PRUNED)
  const isMark = await isEmptyFile(mark)
  if (background && (!isMark || ((await ageMs(mark)) ?? Infinity) < idleMs / PASSES_PER_IDLE)) return
  // A look at some keys does not replace a look at all of them.
  if (keys === undefined && isMark) await writeFile(mark, '')
  const found = keys?.map(folderOf) ?? (await foldersIn(directory))
  const folders = background ? found.filter((folder) => !released.has(folder)) : found
  // A process that ends early looks at other keys than the one before it.
  const start = Math.floor(Math.random() * folders.length)
  const all = [...folders.slice(start), ...folders.slice(0, start)].map((folder) => join(directory, folder))
  let isLeft = true
  try {
    for (const batch of batchesOf(all, BATCH)) {
      // In parallel: other processes create keys meanwhile.
      const looks = batch.map(async (folder): Promise<Idle | undefined> => {
        if (((await ageMs(folder)) ?? 0) < idleMs) return undefined
        const current = await read(folder)
        if (current !== undefined)
          return !isForeign(basename(folder), current.value) && isOver(current)
            ? { folder, version: current.version }
            : undefined
        if (keys !== undefined || isCertain(basename(folder))) await removeIfEmpty(folder)
        return undefined
      })
      const idle = (await Promise.all(looks)).filter((look) => look !== undefined)
      yield await dropAll(floor, idle, false)
    }
    isLeft = false
  } catch (error) {
    isLeft = false
    throw error
  } finally {
    // The process ends before it has looked at all keys: the next one may go on at once.
    if (isLeft && background) await rm(mark, { force: true })
  }
  if (keys === undefined) await removeDead(floor, idleMs)
}

async function* dropReleased(
  directory: string,
  floor: Floor,
  released: Released,
): AsyncGenerator<number, void> {
  const idle = released
    .takeIdle()
    .map(({ folder, version }) => ({ folder: join(directory, folder), version }))
  for (let n = 0; n < idle.length; n += BATCH) yield await dropAll(floor, idle.slice(n, n + BATCH), true)
}

/** The floor first: a key that is created from now on is above all of them. */
async function dropAll(floor: Floor, idle: readonly Idle[], swept: boolean): Promise<number> {
  if (idle.length === 0) return 0
  await floor.raise(idle.reduce((most, { version }) => (version > most ? version : most), 0n))
  const dropped = await Promise.all(idle.map(({ folder, version }) => drop(folder, version, swept)))
  return dropped.filter(Boolean).length
}

/** Prepared keys of processes that died. One that is alive tries again. */
async function removeDead(floor: Floor, idleMs: number): Promise<void> {
  const at = await floor.current()
  const path = floor.pathOf(at)
  for (const entry of (await ifThere(readdir(path))) ?? []) {
    const age = await ageMs(join(path, entry))
    if (idleMs > 0 && age !== undefined && age >= idleMs) await floor.remove(at, entry)
  }
}

/** How many keys there are, and how old the oldest is, of those that were looked at. */
export async function keptIn(directory: string): Promise<Finding> {
  const folders = await foldersIn(directory)
  let oldestMs = 0
  for (const folder of folders.slice(0, MOST_KEPT))
    oldestMs = Math.max(oldestMs, (await ageMs(join(directory, folder))) ?? 0)
  const days = (oldestMs / 86_400_000).toFixed(1)
  const message = `${folders.length} names have a folder, the oldest was last used ${days} days ago`
  return ok('leftovers', message)
}
