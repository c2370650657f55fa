import type { Versioned } from '@locks/core/adapter'
import { createHash } from 'node:crypto'
import { readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { list } from './file-folder.ts'
import { ifThere, writeWhole } from './file-io.ts'
import { seenFile } from './file-paths.ts'

/**
 * For how long a version has been there, by notes that processes of this host leave for each other. A note is an empty
 * file with the time in its name, so it is there as a whole or not at all. The time is that of the host's monotonic
 * clock, which all its processes share until it starts again.
 */
export async function seenForMs(folder: string, { version, value }: Versioned): Promise<number> {
  const clock = await clockId()
  if (clock === undefined) return 0
  const now = process.hrtime.bigint()
  // The value too: versions may repeat if the key was deleted and the wall clock went back.
  const what = createHash('sha256').update(`${clock}\n${value}`).digest('hex').slice(0, 32)
  const times = ((await list(folder)) ?? [])
    .filter((entry) => entry.state === 'seen' && entry.version === version && entry.id.startsWith(`${what}-`))
    .map(({ id }) => BigInt(id.slice(what.length + 1)))
    .filter((time) => time <= now)
  if (times.length > 0) {
    const first = times.reduce((a, b) => (a < b ? a : b))
    return Number(now - first) / 1_000_000
  }
  await ifThere(writeWhole(join(folder, seenFile(version, `${what}-${now}`)), '', false))
  return 0
}

/** Identifies this run of the host's monotonic clock; undefined if that is not possible. */
async function clockId(): Promise<string | undefined> {
  if (process.platform !== 'linux') return undefined
  try {
    const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8')
    // A container may have its own monotonic clock.
    return `${boot.trim()} ${await readlink('/proc/self/ns/time')}`
  } catch {
    return undefined
  }
}
