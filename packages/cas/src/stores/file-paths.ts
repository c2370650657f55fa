import { createHash, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { nameIn } from '../record.ts'

/**
 * What a directory of locks looks like:
 *
 *     <directory>/order_42-<hash>/1763280000000042        the present version and its value
 *                                /1763280000000042.<id>.was   on its way out, replaced by that id's next
 *                                /1763280000000043.<id>.next  written, not yet in force
 *                                /1763280000000042.<id>.seen  that version was read, at the time in the id
 *     <directory>/.floor/1763280000000041/                 no key is created with that version or a lower one
 *                                        /order_42-<hash>.<id>/…   a key that is about to be created
 *     <directory>/.pruned                                  written when a process last began to prune
 *
 * A name that was dropped leaves nothing but the floor. A key is created by renaming its folder out of the floor: if
 * the floor was raised meanwhile, which renames it, that fails.
 */
export const FLOOR = '.floor'
export const PRUNED = '.pruned'

/** A name never becomes a path: the readable part is for people, the hash identifies it. */
export function folderOf(key: string): string {
  const readable = key.slice(0, 40).replace(/[^a-zA-Z0-9_-]+/g, '_')
  const hash = createHash('sha256').update(key).digest('hex').slice(0, 32)
  return `${readable}-${hash}`
}

/** Whether a folder is named like that of a key. Others of the directory are never opened. */
export function isFolder(folder: string): boolean {
  return /^[a-zA-Z0-9_-]{0,40}-[0-9a-f]{32}$/.test(folder)
}

/**
 * Whether an empty folder is certainly that of a key: its hash is that of its readable part, with one of the usual
 * separators in place of `_`. Nothing else identifies it, so that of an unusual name stays until the name is used.
 */
export function isCertain(folder: string): boolean {
  const readable = folder.slice(0, -33)
  return ['_', ':', '/', '.', ' '].some((one) => folderOf(readable.replaceAll('_', one)) === folder)
}

/** Whether a value names another key than that of its folder: then another program made it. */
export function isForeign(folder: string, value: string): boolean {
  const name = nameIn(value)
  return name !== undefined && folderOf(name) !== folder
}

/** Where the folder of a new key is prepared. */
export function newFolder(floor: string, folder: string): string {
  return join(floor, `${folder}.${randomUUID()}`)
}

/** The final folder of an entry of the floor. */
export function folderOfNew(entry: string): string {
  return entry.slice(0, entry.lastIndexOf('.'))
}

export interface Entry {
  readonly file: string
  readonly version: bigint
  /** `was`: being replaced. `next`: a candidate for that version. `seen`: a note on it. */
  readonly state: 'present' | 'was' | 'next' | 'seen'
  readonly id: string
}

export const presentFile = (version: bigint): string => String(version)
export const wasFile = (version: bigint, id: string): string => `${version}.${id}.was`
export const nextFile = (version: bigint, id: string): string => `${version}.${id}.next`
export const seenFile = (version: bigint, id: string): string => `${version}.${id}.seen`

export function entryOf(file: string): Entry | undefined {
  const match = /^(\d{1,19})(?:\.([0-9a-f-]{34,53})\.(was|next|seen))?$/.exec(file)
  if (match?.[1] === undefined) return undefined
  const [, version, id = '', kind] = match
  const state = kind === 'was' || kind === 'next' || kind === 'seen' ? kind : 'present'
  return { file, version: BigInt(version), state, id }
}
