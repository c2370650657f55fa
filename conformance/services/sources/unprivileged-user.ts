import { readFileSync } from 'node:fs'

export interface User {
  readonly uid: number
  readonly gid: number
}

/** Some servers refuse to run as root. `nobody` exists everywhere, and their directory is made over to it. */
export function unprivilegedUser(): User {
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
