import { join } from 'node:path'
import { directories, directoryOf } from '../../../conformance/services/programs/search.ts'
import { aptInstall, aptRefusal } from '../../../conformance/services/sources/apt.ts'

const commands = ['chromium', 'chromium-browser', 'google-chrome']

function locate(): string | undefined {
  for (const command of commands) {
    const directory = directoryOf([command], directories())
    if (directory !== undefined) return join(directory, command)
  }
  return undefined
}

/** The path of a Chromium, installed from Debian's packages if there is none; otherwise why it is not available. */
export async function obtainChromium(): Promise<{ readonly path: string } | { readonly refusal: string }> {
  const here = locate()
  if (here !== undefined) return { path: here }
  if (process.env['LOCKS_ONLY'] !== undefined)
    return { refusal: 'there is no Chromium, and a narrowed run installs none' }
  const refusal = aptRefusal()
  if (refusal !== undefined) return { refusal: `there is no Chromium, and none can be installed: ${refusal}` }
  await aptInstall(['chromium'])
  const path = locate()
  if (path === undefined) throw new Error('chromium is installed, and still it cannot be found')
  return { path }
}

export const chromiumFlags: readonly string[] = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
]
