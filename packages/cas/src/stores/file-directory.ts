import { danger, ok, warning } from '@locks/core/adapter'
import type { Finding } from '@locks/core/adapter'
import { constants } from 'node:fs'
import { access, stat, statfs } from 'node:fs/promises'
import { codeOf, errors } from '../errors.ts'
import type { Floor } from './file-floor.ts'

/** File systems, by the kernel's number, on which a rename may be repeated or seen late elsewhere. */
const untrusted: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x65735546, 'FUSE'],
  [0x01021997, '9P'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x47504653, 'GPFS'],
  [0x01161970, 'GFS2'],
  [0x7461636f, 'OCFS2'],
  [0x5346414f, 'AFS'],
  [0x6b414653, 'AFS'],
  [0x73757245, 'Coda'],
  [0x19830326, 'BeeGFS'],
])

/** The name of a file system that is not safe for locks, by its number. */
export function untrustedFileSystem(type: number): string | undefined {
  // The number is signed on some machines.
  return untrusted.get(type >>> 0)
}

const UNCERTAIN = 'where two renames may both succeed'

/** Returns the name of a file system that is not safe for locks; rejects if the directory cannot be used at all. */
async function checkDirectory(directory: string): Promise<string | undefined> {
  if (!(await stat(directory)).isDirectory())
    throw errors.invalid(
      `${JSON.stringify(directory)} is not a directory, so no lock can be acquired; ` +
        'remove the file, or name a directory',
    )
  await access(directory, constants.R_OK | constants.W_OK | constants.X_OK)
  return untrustedFileSystem(Number((await statfs(directory)).type))
}

export async function diagnoseDirectory(directory: string): Promise<readonly Finding[]> {
  const shown = JSON.stringify(directory)
  try {
    const type = await checkDirectory(directory)
    const usable = ok('directory', `${shown} exists and is writable`)
    if (type === undefined) return [usable, ok('file-system', `${shown} is on a local file system`)]
    const advice = 'use a directory on a disk of this host, or an adapter for several hosts'
    return [usable, danger('file-system', `${shown} is on ${type}, ${UNCERTAIN}`, advice)]
  } catch (error) {
    const failure = directoryError(shown, error)
    const message = failure instanceof Error ? failure.message : `${shown} cannot be read`
    const advice = 'create the directory, and let the user of this process read and write in it'
    return [warning('directory', message, advice)]
  }
}

/** Refuses a directory that cannot be used, with the reason and what to do, before anything is put into it. */
export async function prepareDirectory(
  directory: string,
  floor: Floor,
  trustFileSystem: boolean,
): Promise<void> {
  const shown = JSON.stringify(directory)
  try {
    const type = await checkDirectory(directory)
    if (type !== undefined && !trustFileSystem)
      throw errors.invalid(
        `${shown} is on ${type}, ${UNCERTAIN}; choose a local directory, or set trustFileSystem if it is safe`,
      )
    await floor.prepare()
  } catch (error) {
    throw directoryError(shown, error)
  }
}

function directoryError(shown: string, error: unknown): unknown {
  switch (codeOf(error)) {
    case 'ENOENT':
      return errors.invalid(`directory ${shown} does not exist; create it first`)
    case 'ENOTDIR':
      return errors.invalid(
        `directory ${shown} is below a file, so no lock can be acquired; remove the file, or name another directory`,
      )
    case 'EACCES':
    case 'EPERM':
      return errors.invalid(
        `directory ${shown} is not writable by this process (uid ${process.getuid?.() ?? 'unknown'}), so no lock can ` +
          'be acquired; let this user read and write in it, or name another directory',
      )
    case 'EROFS':
      return errors.invalid(
        `directory ${shown} is on a read-only file system, so no lock can be acquired; name another directory`,
      )
    default:
      return error
  }
}
