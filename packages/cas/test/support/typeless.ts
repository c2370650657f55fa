import fs from 'node:fs/promises'
import type { Dirent } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'

/**
 * Until the returned function is called, directories tell no types, as on XFS with ftype=0 and many network file
 * systems: Node then asks for the type of each entry, and rejects if one is gone by then. `meanwhile` runs once the
 * names of `directory` are read.
 */
export function withoutTypes(directory: string, meanwhile: () => Promise<void>): () => void {
  const real = fs.readdir
  let isInside = false

  async function readdir(path: string, options?: { withFileTypes?: boolean }): Promise<unknown> {
    const names = await real(path)
    if (path === directory && !isInside) {
      isInside = true
      await meanwhile().finally(() => (isInside = false))
    }
    return options?.withFileTypes === true ? Promise.all(names.map((name) => typed(path, name))) : names
  }

  async function typed(path: string, name: string): Promise<Pick<Dirent, 'name' | 'isFile' | 'isDirectory'>> {
    const stats = await fs.lstat(join(path, name))
    return { name, isFile: () => stats.isFile(), isDirectory: () => stats.isDirectory() }
  }

  Reflect.set(fs, 'readdir', readdir)
  syncBuiltinESMExports()
  return () => {
    fs.readdir = real
    syncBuiltinESMExports()
  }
}
