import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, expect, test } from 'vitest'
import { publicPackages } from '../../scripts/lib/packages.mjs'

const run = promisify(execFile)
const packages = await publicPackages()
let project: string

/** Our packages as they are installed, and nothing beside them. */
beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), 'locks-clients-'))
  for (const { name, folder } of packages)
    for (const part of ['package.json', 'dist'])
      await cp(join(folder, part), join(project, 'node_modules', name, part), { recursive: true })
  return () => rm(project, { recursive: true, force: true })
})

async function outcomeOf(config: unknown): Promise<string> {
  const program = `const { openLocks } = await import('@locks/core')
    await openLocks(JSON.parse(process.argv[1])).then(() => console.log('opened'), (error) => console.log(error.code, error.message))`
  const args = ['--input-type=module', '-e', program, JSON.stringify(config)]
  // Where a workspace's tools look beside the project's own packages.
  const { stdout } = await run(process.execPath, args, {
    cwd: project,
    env: { ...process.env, NODE_PATH: '' },
  })
  return stdout.trim()
}

test.each(packages.filter(({ clients }) => clients.length > 0))(
  '$name without its client says what to install',
  async ({ name, clients: [client] }) => {
    const said = await outcomeOf({ adapter: name, url: 'any://user:sesame@host' })
    expect(said).toBe(
      `LOCK_INVALID_ARGUMENT cannot load adapter "${name}": it needs ${client}: npm install ${client}`,
    )
  },
)

test('a store that needs its client only sometimes says so then', async () => {
  expect(await outcomeOf('tair://user:sesame@host')).toMatch(
    /^LOCK_INVALID_ARGUMENT .*: npm install @locks\/redis ioredis$/,
  )
  expect(await outcomeOf('file:.')).toBe('opened')
})
