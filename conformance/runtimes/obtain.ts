import { execFile } from 'node:child_process'
import { access, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const home = join(import.meta.dirname, '../../.cache/runtimes')

/** A program that runs JavaScript, as an npm package. */
export interface Runtime {
  /** With the version: `node@24`. */
  readonly spec: string
  /** Before the file to run. */
  readonly args: readonly string[]
}

/** Installs the package, unless an earlier run did. Resolves with the command that runs a file. */
export async function obtain({ spec, args }: Runtime): Promise<readonly [string, ...string[]]> {
  const folder = join(home, spec)
  const [name] = spec.split('@')
  const command = join(folder, 'node_modules/.bin', String(name))
  if (!(await exists(command))) await install([spec], folder)
  return [command, ...args]
}

/**
 * Installs npm packages in `folder`, unless an earlier run did. In a folder of its own first, so that an interrupted
 * installation is not taken for a finished one. `finish` completes it there.
 */
export async function obtainPackages(
  specs: readonly string[],
  folder: string,
  finish: (folder: string) => Promise<void>,
): Promise<void> {
  // Without the scripts of the packages: none of them is needed, and some download programs.
  if (!(await exists(folder))) await install(['--ignore-scripts', ...specs], folder, finish)
}

async function install(
  specs: readonly string[],
  folder: string,
  finish: (folder: string) => Promise<void> = async () => undefined,
): Promise<void> {
  await mkdir(dirname(folder), { recursive: true })
  const fresh = await mkdtemp(join(dirname(folder), 'new-'))
  try {
    await writeFile(join(fresh, 'package.json'), '{ "private": true }')
    await run('npm', ['install', '--no-audit', '--no-fund', ...specs], { cwd: fresh })
    await finish(fresh)
    await rm(folder, { recursive: true, force: true })
    await rename(fresh, folder)
  } finally {
    await rm(fresh, { recursive: true, force: true })
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
