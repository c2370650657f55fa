import { watch as watchFiles } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { basename, isAbsolute, join } from 'node:path'
import { setTimeout as pass } from 'node:timers/promises'
import { settleOptions } from '@locks/core/adapter'
import type { Put, StoreFactory, Versioned, VersionedStore } from '@locks/core/adapter'
import { codeOf, errors } from '../errors.ts'
import { declared } from '../option-table.ts'
import { diagnoseDirectory, prepareDirectory } from './file-directory.ts'
import { Floor } from './file-floor.ts'
import { foldersIn, list, read, replace } from './file-folder.ts'
import { ifThere, syncDirectory, writeWhole } from './file-io.ts'
import { entryOf, folderOf, folderOfNew, isForeign, newFolder, presentFile } from './file-paths.ts'
import { keptIn, pruneFolders } from './file-prune.ts'
import { Released } from './file-released.ts'
import { seenForMs } from './file-seen.ts'

/** Of the store `file`. The directory must be absolute. */
// <options FileStoreOptions only file>
export interface FileStoreOptions {
  /** An existing directory on a local file system, writable and for these locks alone. */
  readonly directory: string
  /** Use the directory although it is on a network file system. Default: `false`. */
  readonly trustFileSystem?: boolean
}
// </options>

/**
 * A versioned store in a directory, for processes of one host.
 *
 * Exactly one file of a key has a plain number as its name: its present version. To replace it, a process writes the
 * next value aside and renames the present file away. A file can be renamed away once, so this rename decides; later
 * ones find no such file. The last step, giving the next value its number, can be done by any process: if the winner
 * dies in between, the next one that looks does it.
 */
export function fileStore(options: FileStoreOptions): StoreFactory {
  const { directory = '', trustFileSystem } = settleOptions(declared, { ...options, store: 'file' })
  if (!isAbsolute(directory)) throw errors.invalid('directory must be an absolute path')
  return () => openFileStore(directory, trustFileSystem)
}

function openFileStore(directory: string, trustFileSystem: boolean): VersionedStore {
  let prepared: Promise<void> | undefined
  let served = false
  const floor = new Floor(directory)
  const released = new Released()
  const stops = new Set<() => void>()

  async function prepare(): Promise<void> {
    try {
      await prepareDirectory(directory, floor, trustFileSystem)
      served = true
    } catch (error) {
      // An operator may correct it while the program runs.
      prepared = undefined
      throw served
        ? errors.unavailable(error instanceof Error ? error.message : 'the directory failed', error)
        : error
    }
  }

  async function pathOf(key: string): Promise<string> {
    await (prepared ??= prepare())
    return join(directory, folderOf(key))
  }

  /** A missing key is an answer only if the directory is there. */
  async function confirm(current: Versioned | undefined): Promise<Versioned | undefined> {
    if (current === undefined) await floor.confirm()
    return current
  }

  async function createIfMissing(folder: string, value: string): Promise<Put> {
    const current = await read(folder)
    return current === undefined
      ? create(directory, floor, basename(folder), value)
      : { conflict: true, current }
  }

  /** Names the directory in errors of the file system. */
  function failing<A extends unknown[], T>(call: (...args: A) => Promise<T>): (...args: A) => Promise<T> {
    return async (...args) => {
      try {
        return await call(...args)
      } catch (error) {
        const code = codeOf(error)
        if (code === undefined || code.startsWith('LOCK_')) throw error
        // Gone, remounted or full since the last check.
        prepared = undefined
        throw errors.unavailable(
          `directory ${JSON.stringify(directory)} failed with ${code}, so the outcome is unknown; check the directory`,
          error,
        )
      }
    }
  }

  return {
    scope: 'host',
    fencing: 'durable',

    get: failing(async (key: string) => confirm(await read(await pathOf(key)))),

    put: failing(
      async (
        key: string,
        value: string,
        expected: bigint | undefined,
        durable: boolean,
        idleMs?: number,
      ): Promise<Put> => {
        const folder = await pathOf(key)
        const name = basename(folder)
        // Only where the use of the key ends: as long as it goes on, each put looks.
        const swept = idleMs !== undefined && expected !== undefined && released.uses(name, expected)
        const put =
          expected === undefined
            ? await createIfMissing(folder, value)
            : await replace(folder, value, expected, { durable, swept })
        if ('version' in put) released.note(name, put.version, idleMs)
        else await confirm(put.current)
        return put
      },
    ),

    seenForMs: failing(async (key: string, current: Versioned) => seenForMs(await pathOf(key), current)),

    now: () => Promise.resolve(Date.now()),

    async *values() {
      await (prepared ??= prepare())
      for (const folder of await failing(foldersIn)(directory)) {
        const current = await failing(read)(join(directory, folder))
        if (current !== undefined && !isForeign(folder, current.value)) yield current
      }
    },

    async *prune(idleMs, isOver, background, keys) {
      await (prepared ??= prepare())
      yield* pruneFolders(directory, floor, released, { idleMs, isOver, background, ...(keys && { keys }) })
    },

    async diagnose() {
      const found = await diagnoseDirectory(directory)
      return found[0]?.level === 'ok' ? [...found, await keptIn(directory)] : found
    },

    watch: failing(async (key: string, hint: () => void) => {
      let latest = -1n
      const watcher = watchFiles(await pathOf(key), { persistent: false }, (_, file) => {
        const entry = file === null ? undefined : entryOf(file)
        if (file !== null && entry?.state !== 'present') return
        // The same number comes again when that file goes.
        if (entry !== undefined && entry.version <= latest) return
        latest = entry?.version ?? latest
        hint()
      })
      const stop = (): void => {
        stops.delete(stop)
        watcher.close()
      }
      // Only hints are lost: waiters also poll.
      watcher.on('error', stop)
      stops.add(stop)
      return stop
    }),

    async close() {
      for (const stop of stops) stop()
    },
  }
}

/** How often creating a key is tried while the floor rises. */
const MAX_TRIES = 100

/** A key is created as a whole folder, so that a folder without a value is never visible. */
async function create(directory: string, floor: Floor, folder: string, value: string): Promise<Put> {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const from = await floor.current()
    // Above every version of a key that was dropped, or deleted by hand.
    const now = Date.now()
    const byClock = BigInt(now) * 1_000n
    const version = byClock > from ? byClock : from + 1n
    const made = newFolder(floor.pathOf(from), folder)
    floor.making.add(basename(made))
    try {
      await mkdir(made)
      await writeWhole(join(made, presentFile(version)), value, true)
      await syncDirectory(made)
      // Fails if the floor was raised, or if the folder exists and is not empty: the key was created.
      await rename(made, join(directory, folder))
    } catch (error) {
      await rm(made, { recursive: true, force: true })
      const current = isBeaten(error) ? await read(join(directory, folder)) : undefined
      if (current !== undefined) return { conflict: true, current }
      if (!isBeaten(error)) throw error
      floor.forget()
      continue
    } finally {
      floor.making.delete(basename(made))
    }
    await syncDirectory(directory)
    await sweepNew(directory, floor, from)
    // A key that is deleted and created again must get a later time.
    while (Date.now() === now) await pass(1)
    return { version }
  }
  throw errors.unavailable('the floor rises too fast for a key to be created; try again')
}

/** Another process has created the key, or raised the floor and perhaps removed our candidate. */
function isBeaten(error: unknown): boolean {
  const code = codeOf(error)
  return code === 'ENOTEMPTY' || code === 'EEXIST' || code === 'ENOENT'
}

/** Removes candidates for keys that exist by now: of processes that were beaten or died. One at a time is enough. */
async function sweepNew(directory: string, floor: Floor, at: bigint): Promise<void> {
  if (floor.sweeping) return
  floor.sweeping = true
  try {
    for (const entry of (await ifThere(readdir(floor.pathOf(at)))) ?? []) {
      if (floor.making.has(entry)) continue
      const there = await list(join(directory, folderOfNew(entry)))
      if (there?.some(({ state }) => state === 'present') === true) await floor.remove(at, entry)
    }
  } finally {
    floor.sweeping = false
  }
}
