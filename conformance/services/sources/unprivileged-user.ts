import { readFileSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname } from 'node:path'
import type { Program } from '../programs/program.ts'

export interface User {
  readonly uid: number
  readonly gid: number
}

/** Some servers refuse to run as root. `nobody` exists everywhere, and their directory is made over to it. */
export function userOf({ refusesRoot }: Pick<Program, 'refusesRoot'>): User | undefined {
  return refusesRoot && process.getuid?.() === 0 ? unprivilegedUser() : undefined
}

function unprivilegedUser(): User {
  const entry = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .find(([name]) => name === 'nobody')
  const [, , uid, gid] = entry ?? []
  if (uid === undefined || gid === undefined) {
    throw new Error('this server refuses to run as root, and there is no user `nobody` to run it as')
  }
  return { uid: Number(uid), gid: Number(gid) }
}

/** The place for temporary files; if only root may use it, the one for all users. */
export function temporaryFilesOf(user: User | undefined): string {
  const own = tmpdir()
  return user === undefined || isOpenToAll(own) ? own : '/tmp'
}

/** Whether all users may enter it. */
function isOpenToAll(directory: string): boolean {
  const parent = dirname(directory)
  return (statSync(directory).mode & 0o001) !== 0 && (parent === directory || isOpenToAll(parent))
}
