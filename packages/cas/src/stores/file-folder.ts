import { batchesOf } from '@locks/core/adapter'
import type { Put, Versioned } from '@locks/core/adapter'
import { randomUUID } from 'node:crypto'
import { lstat, readdir, readFile, rename, rmdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf, errors } from '../errors.ts'
import { ifThere, syncDirectory, writeWhole } from './file-io.ts'
import { entryOf, isFolder, nextFile, presentFile, wasFile } from './file-paths.ts'
import type { Entry } from './file-paths.ts'

/** A folder that is being changed may show nothing for a moment; this often it is looked at again. */
const MAX_LOOKS = 100

/** How many folders are looked at at a time. */
const BATCH = 64

/** The present value of a key, after finishing the put of a process that died. */
export async function read(folder: string): Promise<Versioned | undefined> {
  for (let looks = 0, blanks = 0; looks < MAX_LOOKS; looks += 1) {
    const entries = await list(folder)
    if (entries === undefined) return undefined
    const present = highest(entries, 'present')
    if (present !== undefined) {
      blanks = 0
      const value = await ifThere(readFile(join(folder, present.file), 'utf8'))
      if (value !== undefined) return { value, version: present.version }
      continue
    }
    const was = highest(entries, 'was')
    if (was !== undefined) {
      blanks = 0
      const version = was.version + 1n
      await ifThere(rename(join(folder, nextFile(version, was.id)), join(folder, presentFile(version))))
    } else if ((blanks += 1) > 2) {
      // A look may show neither name of a file that is being renamed, but not time after time. The value was dropped,
      // or deleted by hand. Candidates have nothing to replace any more. The folder must be empty to be created again.
      for (const { file } of entries) await ifThere(unlink(join(folder, file)))
      return undefined
    }
  }
  throw errors.unavailable(
    `${JSON.stringify(folder)} has no value, or changes too fast to be read; try again`,
  )
}

/**
 * `swept`: this process put `expected` and looked then, so nothing of an earlier version is there. What may have come
 * since, notes and candidates of processes that died, can wait for the next look.
 */
export async function replace(
  folder: string,
  value: string,
  expected: bigint,
  { durable, swept }: { readonly durable: boolean; readonly swept: boolean },
): Promise<Put> {
  const version = expected + 1n
  const id = randomUUID()
  const next = join(folder, nextFile(version, id))
  try {
    await writeWhole(next, value, durable)
    await rename(join(folder, presentFile(expected)), join(folder, wasFile(expected, id)))
  } catch (error) {
    await ifThere(unlink(next))
    if (codeOf(error) !== 'ENOENT') throw error
    return { conflict: true, current: await read(folder) }
  }
  // Another process that looked meanwhile may have done it already.
  await ifThere(rename(next, join(folder, presentFile(version))))
  if (durable) await syncDirectory(folder)
  await ifThere(unlink(join(folder, wasFile(expected, id))))
  if (!swept) await sweep(folder, version)
  return { version }
}

/**
 * Drops a key if it is still at that version: a put that replaces it renames the same file away, so one of the two
 * finds it gone. The floor must be at least that version. `swept`: the folder has nothing of earlier versions.
 */
export async function drop(folder: string, version: bigint, swept: boolean): Promise<boolean> {
  // Otherwise a version on its way out would become the present one.
  if (!swept && ((await list(folder)) ?? []).length > 1) await sweep(folder, version)
  const dropped = await ifThere(unlink(join(folder, presentFile(version))).then(() => true))
  if (dropped !== true) return false
  if (await removeIfEmpty(folder)) return true
  for (const { state, file } of (await list(folder)) ?? [])
    if (state === 'seen') await ifThere(unlink(join(folder, file)))
  await removeIfEmpty(folder)
  return true
}

/** Whether it is gone. It stays if a process has put something into it again. */
export async function removeIfEmpty(folder: string): Promise<boolean> {
  try {
    await rmdir(folder)
    return true
  } catch (error) {
    if (!['ENOENT', 'ENOTEMPTY', 'EEXIST'].includes(codeOf(error) ?? '')) throw error
    return codeOf(error) === 'ENOENT'
  }
}

/** The folders that are named like those of keys. Nothing else is opened. */
export async function foldersIn(directory: string): Promise<readonly string[]> {
  const folders: string[] = []
  for (const batch of batchesOf((await readdir(directory)).filter(isFolder), BATCH)) {
    const found = await Promise.all(batch.map((name) => ifThere(lstat(join(directory, name)))))
    folders.push(...batch.filter((_, index) => found[index]?.isDirectory() === true))
  }
  return folders
}

/**
 * Undefined when there is no such folder. Never `withFileTypes`: where a directory tells no types, it rejects as if the
 * folder were missing when one of its files goes meanwhile. Such a file stays in the list: without it, a key that
 * changes fast would seem to be free.
 */
export async function list(folder: string): Promise<readonly Entry[] | undefined> {
  const entries = await named(folder)
  return entries && filesAmong(folder, entries)
}

/** What is named like our files, whether it is one or not. */
async function named(folder: string): Promise<readonly Entry[] | undefined> {
  const files = await ifThere(readdir(folder))
  return files?.map(entryOf).filter((entry) => entry !== undefined)
}

async function filesAmong(folder: string, entries: readonly Entry[]): Promise<readonly Entry[]> {
  const isFile = await Promise.all(
    entries.map(async ({ file }) => {
      const found = await ifThere(lstat(join(folder, file)))
      return found === undefined || found.isFile()
    }),
  )
  return entries.filter((_, index) => isFile[index])
}

/**
 * Removes what puts of processes that died left behind. All candidates up to `version` have lost, since it is there; a
 * process that still has one learns it by its rename. Notes on earlier versions are obsolete.
 */
async function sweep(folder: string, version: bigint): Promise<void> {
  const obsolete = ((await named(folder)) ?? []).filter((entry) =>
    entry.state === 'next' ? entry.version <= version : entry.state !== 'present' && entry.version < version,
  )
  for (const { file } of await filesAmong(folder, obsolete)) await ifThere(unlink(join(folder, file)))
}

function highest(entries: readonly Entry[], state: Entry['state']): Entry | undefined {
  let best: Entry | undefined
  for (const entry of entries)
    if (entry.state === state && (best === undefined || entry.version > best.version)) best = entry
  return best
}
