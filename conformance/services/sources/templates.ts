import { chown, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { guard } from '../guardian/guardian.ts'
import { temporaryFilesOf, userOf } from './unprivileged-user.ts'

const VARIABLE = 'LOCKS_TEST_TEMPLATES'

/** Where servers of this run leave what they began with, for the next ones to copy. */
export function templatesFolder(): string | undefined {
  return process.env[VARIABLE]
}

/** Makes that place for all processes of this run. Returns how to remove it. */
export async function provideTemplates(): Promise<() => Promise<void>> {
  // Of the servers that use it, none runs as root.
  const user = userOf({ refusesRoot: true })
  const folder = await mkdtemp(join(temporaryFilesOf(user), 'locks-templates-'))
  const release = guard({ path: folder })
  if (user !== undefined) await chown(folder, user.uid, user.gid)
  process.env[VARIABLE] = folder
  return async () => {
    await rm(folder, { recursive: true, force: true })
    release()
  }
}
