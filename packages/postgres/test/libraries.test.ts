import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, realpath, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { startServer } from './support/setup.ts'

const server = await startServer()
const home = join(import.meta.dirname, '..')

/** A directory where a program finds the adapter, and of the client libraries only these. */
async function projectWith(installed: readonly string[]): Promise<string> {
  const project = await realpath(await mkdtemp(join(tmpdir(), 'locks-libraries-')))
  onTestFinished(() => rm(project, { recursive: true, force: true }))
  const packages = join(project, 'node_modules')
  await mkdir(join(packages, '@locks/postgres'), { recursive: true })
  // A copy: a link would find the libraries of this repository.
  for (const part of ['package.json', 'dist'])
    await cp(join(home, part), join(packages, '@locks/postgres', part), { recursive: true })
  for (const name of ['@locks/core', '@locks/sql', ...installed]) {
    await mkdir(dirname(join(packages, name)), { recursive: true })
    await symlink(await realpath(join(home, 'node_modules', name)), join(packages, name))
  }
  return project
}

const program = (query: string): string => `
  import { createLocks } from '@locks/core'
  import { postgres } from '@locks/postgres'
  const url = '${server.url}?application_name=library${query}'
  const locks = createLocks(postgres({ url }))
  const text = await locks.with('a', ({ fence }) => typeof fence).catch(({ code, message }) => code + ' ' + message)
  await locks.close()
  process.stdout.write(text)
`

test.each<readonly [installed: string[], query: string, outcome: string]>([
  [['pg'], '', 'bigint'],
  [['postgres'], '', 'bigint'],
  [['postgres'], '&library=postgres', 'bigint'],
  [[], '', '; run: npm install pg, or: npm install postgres'],
  [['postgres'], '&library=pg', 'npm install pg'],
  [['pg'], '&library=postgres', 'npm install postgres'],
])('with %j installed, a URL with "%s" ends in %s', async (installed, query, outcome) => {
  const run = ['--input-type=module', '-e', program(query)]
  const { stdout } = await promisify(execFile)(process.execPath, run, { cwd: await projectWith(installed) })
  expect(stdout).toContain(outcome)
  if (outcome !== 'bigint') expect(stdout).toContain('LOCK_INVALID_ARGUMENT')
})
