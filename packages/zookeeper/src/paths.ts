import { createHash } from 'node:crypto'
import { errors } from './errors.ts'

/**
 * Curator's `InterProcessMutex` layout: a lock is a directory, each client that wants it has an ephemeral sequential
 * child `_c_<uuid>-lock-<sequence>` there, and the lowest one holds it.
 */
const MARKER = 'lock-'

/** Sequences are signed 32-bit numbers. Beyond the highest, order by text is no longer order by number. */
const LAST_SEQUENCE = 2_147_480_000

/** A server closes the connection on requests of more than a megabyte, which would look like an outage. */
const MAX_PATH_BYTES = 4096

/** What the node of an attempt begins with, so that it can be found after a lost reply. */
export function prefixOf(attemptId: string): string {
  const hex = createHash('sha256').update(attemptId).digest('hex')
  // UUID version 8, "custom": Curator expects a UUID, and a resent attempt must get the same one.
  const variant = ((Number.parseInt(hex.charAt(16), 16) & 3) | 8).toString(16)
  const groups = [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`]
  return `_c_${groups.join('-')}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}-${MARKER}`
}

/**
 * The nodes of a lock in the order they hold it: by text, as in Curator. Unlike there, other children do not count:
 * with `rawPath` they can be the directories of locks with longer names.
 */
export function inOrder(children: readonly string[]): readonly string[] {
  const keyed = children.filter(isMember).map((child) => ({ child, key: orderOf(child) }))
  keyed.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0))
  return keyed.map(({ child }) => child)
}

/** Whether order by text is order of creation for this child and those that follow soon. */
export function isInOrder(child: string): boolean {
  const sequence = sequenceOf(child)
  return sequence !== undefined && sequence < LAST_SEQUENCE
}

export function sequenceOf(child: string): number | undefined {
  const text = orderOf(child)
  return /^\d{10}$/.test(text) ? Number(text) : undefined
}

export function sequenceText(sequence: number): string {
  return String(sequence).padStart(10, '0')
}

/** Whether a child is in the queue of the lock. A sequence that overflowed is negative. */
function isMember(child: string): boolean {
  return /(?:^|-)lock-(?:\d{10}|-\d{9,10})$/.test(child)
}

function orderOf(child: string): string {
  const at = child.lastIndexOf(MARKER)
  return at < 0 ? child : child.slice(at + MARKER.length)
}

/** Any name as one path segment. Reversible, so no two names share one. */
export function encodeName(name: string): string {
  const bytes = Buffer.from(name, 'utf8')
  let text = ''
  for (const byte of bytes) text += plain.has(byte) ? String.fromCharCode(byte) : escaped(byte)
  return text === '.' || text === '..' ? text.replaceAll('.', '%2E') : text
}

const plain: ReadonlySet<number> = new Set(
  Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:@=+,~'),
)

function escaped(byte: number): string {
  return `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
}

export interface Layout {
  readonly basePath: string
  /** The lock's name is the path of its directory. */
  readonly rawPath: boolean
}

export function directoryOf(name: string, { basePath, rawPath }: Layout): string {
  if (!rawPath) return `${basePath}/${encodeName(name)}`
  if (!isPath(name)) throw errors.invalid('with rawPath a lock name must be an absolute ZooKeeper path')
  if (isMember(name.slice(name.lastIndexOf('/') + 1)))
    throw errors.invalid('with rawPath a lock name must not end like the node of a holder: lock-<10 digits>')
  return name
}

/** The name of the lock at this segment of the base path; undefined when this package did not create it. */
export function nameOf(segment: string, { basePath, rawPath }: Layout): string | undefined {
  if (rawPath) return isMember(segment) ? undefined : `${basePath}/${segment}`
  try {
    const name = decodeURIComponent(segment)
    return encodeName(name) === segment ? name : undefined
  } catch {
    return undefined
  }
}

export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/'))
}

/** What the server refuses in a path and the library does not check: controls, surrogates, private use, specials. */
function isForbidden(unit: number): boolean {
  if (unit <= 0x1f || (unit >= 0x7f && unit <= 0x9f)) return true
  return (unit >= 0xd800 && unit <= 0xf8ff) || unit >= 0xfff0
}

/** Whether the server accepts it: absolute, no empty or relative segment, no control character. */
export function isPath(path: string): boolean {
  if (!path.startsWith('/') || Buffer.byteLength(path) > MAX_PATH_BYTES) return false
  for (let at = 0; at < path.length; at += 1) if (isForbidden(path.charCodeAt(at))) return false
  return path
    .slice(1)
    .split('/')
    .every((segment) => segment !== '' && segment !== '.' && segment !== '..')
}
