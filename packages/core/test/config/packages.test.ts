import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'

const run = promisify(execFile)
const core = join(import.meta.dirname, '../..')

/** A project that has core, and an adapter whose client is installed or not. */
let project: string

async function write(path: string, text: string): Promise<void> {
  await mkdir(dirname(join(project, path)), { recursive: true })
  await writeFile(join(project, path), text)
}

async function adapterPackage(name: string, code: string, peers: object, meta: object = {}): Promise<void> {
  const manifest = {
    name,
    type: 'module',
    main: 'index.js',
    peerDependencies: peers,
    peerDependenciesMeta: meta,
  }
  await write(`node_modules/${name}/package.json`, JSON.stringify(manifest))
  await write(`node_modules/${name}/index.js`, code)
}

/** The error that a program of that project gets when it opens `config`. */
async function outcome(config: unknown, env: Record<string, string> = {}): Promise<string> {
  const { stdout } = await run(process.execPath, ['program.mjs', JSON.stringify(config) ?? ''], {
    cwd: project,
    // Where tools of a workspace look besides the project's own packages.
    env: { ...process.env, NODE_PATH: '', ...env },
  })
  return stdout.trim()
}

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), 'locks-config-'))
  await mkdir(join(project, 'node_modules/@locks'), { recursive: true })
  await symlink(core, join(project, 'node_modules/@locks/core'))
  await write(
    'program.mjs',
    `import { openLocks } from '@locks/core'
    const [, , config] = process.argv
    await openLocks(config ? JSON.parse(config) : undefined).then(
      () => console.log('opened'), (error) => console.log(error.code, error.message))`,
  )
  const failing = "import 'nobody-has-this'\nexport const fromConfig = () => () => ({})"
  await adapterPackage('needs-client', failing, { 'nobody-has-this': '1' })
  await adapterPackage('broken', failing, { optional: '1' }, { optional: { optional: true } })
  return () => rm(project, { recursive: true, force: true })
})

describe('a package that is missing is named, with the command to install it', () => {
  test.each([
    ['redis://user:sesame@host:6379', '@locks/redis ioredis'],
    ['rediss://host', '@locks/redis ioredis'],
    ['redlock://a,b,c', '@locks/redlock ioredis'],
    ['zookeeper://a,b,c/chroot', '@locks/zookeeper node-zookeeper-client'],
    ['postgres://user:sesame@host/db', '@locks/postgres pg'],
    ['mysql://user:sesame@host/db', '@locks/mysql mysql2'],
    ['memory:', '@locks/memory'],
    [{ adapter: 'locks-etcd', url: 'x://user:sesame@host' }, 'locks-etcd'],
  ])('%j', async (config, packages) => {
    const said = await outcome(config)
    expect(said).toMatch(/^LOCK_INVALID_ARGUMENT adapter "[@/\w-]+" is not installed: npm install /)
    expect(said.endsWith(`: npm install ${packages}`)).toBe(true)
    expect(said).not.toContain('sesame')
  })

  test('also when the URL is that of the environment', async () => {
    expect(await outcome(undefined, { LOCKS_URL: 'tair://:sesame@host' })).toBe(
      'LOCK_INVALID_ARGUMENT adapter "@locks/cas" is not installed: npm install @locks/cas',
    )
  })
})

test('the client of an adapter that is missing is named, not the adapter', async () => {
  expect(await outcome({ adapter: 'needs-client' })).toBe(
    'LOCK_INVALID_ARGUMENT cannot load adapter "needs-client": it needs nobody-has-this: npm install nobody-has-this',
  )
})

test('an adapter that fails for another reason is not blamed on an optional client', async () => {
  expect(await outcome({ adapter: 'broken' })).toMatch(
    /^LOCK_INVALID_ARGUMENT cannot load adapter "broken": Cannot/,
  )
})
