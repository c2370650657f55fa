import { execFile } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  declarations,
  documented,
  withConfigs,
  withInterfaces,
  withTable,
} from '../../scripts/lib/options.mjs'
import { publicPackages } from '../../scripts/lib/packages.mjs'
import { scaled } from '../services/timing.ts'
import { copyOf } from '../mutants/mutant.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '..', '..')
const all = await declarations()

test('an option without a comment is refused', () => {
  const declared = { adapter: '@locks/some', options: { size: { kind: 'integer', range: [1, 9] } } } as const
  const source = '    /** So many. */\n    size: { kind'
  expect(documented(declared, source).options).toEqual({
    size: { ...declared.options.size, doc: 'So many.' },
  })
  expect(() => documented(declared, '    size: { kind')).toThrow(
    '@locks/some: size has no comment of one line',
  )
})

test('every adapter declares its options', async () => {
  const others = new Set(['@locks/core', '@locks/sql', '@locks/cli'])
  const adapters = (await publicPackages()).map(({ name }) => name).filter((name) => !others.has(name))
  expect([...all.values()].map(({ adapter }) => adapter).toSorted()).toEqual(adapters.toSorted())
})

test('an option of several adapters has one kind and one default', () => {
  const seen = new Map<string, unknown>()
  for (const { adapter, options } of all.values())
    for (const [key, option] of Object.entries(options)) {
      // Where the store is, and what stands in front of a name, is for each adapter to say.
      if (option.kind === 'text' || option.kind === 'value' || option.kind === 'choice') continue
      const { kind, default: value } = option
      if (value === undefined) continue
      if (seen.has(key)) expect({ kind, value }, `${key} of ${adapter}`).toEqual(seen.get(key))
      seen.set(key, { kind, value })
    }
  expect([...seen.keys()]).toEqual(
    expect.arrayContaining(['claimTtlMs', 'fenceIdleMs', 'poolSize', 'sessionTtlMs']),
  )
})

/** A new option, as the one line that somebody would add, and with the comment above it. */
const line = "extraMs: { kind: 'duration', range: [1, 9], inUrl: true },"
const extra = { kind: 'duration', range: [1, 9], inUrl: true, doc: 'Something extra.' } as const

/** What each adapter is opened with, and the packages it is made of. */
const opened: readonly (readonly [name: string, needs: readonly string[], url: string])[] = [
  ['memory', [], 'memory:'],
  ['cas', [], 'file:/var/lock/app'],
  ['redis', [], 'redis://host'],
  ['redlock', ['redis'], 'redlock://a,b,c'],
  ['zookeeper', [], 'zookeeper://host:2181'],
  ['postgres', ['sql'], 'postgres://host/db'],
  ['mysql', ['sql'], 'mysql://host/db'],
]

describe.each(opened)('%s', (name, needs, url) => {
  async function edited(): Promise<(options: object) => Promise<unknown>> {
    const edit = {
      file: `${name}/option-table.js`,
      find: '    options: {\n',
      replace: `    options: {\n${line}\n`,
    }
    const copy = await copyOf(['core', ...needs, name], [edit])
    onTestFinished(copy.dispose)
    const packages = await publicPackages()
    const clients = packages.find((each) => each.name === `@locks/${name}`)?.clients ?? []
    for (const client of clients.filter((each) => each !== 'ioredis'))
      await symlink(
        join(root, 'packages', name, 'node_modules', client),
        join(copy.root, 'node_modules', client),
      )
    const module = await copy.load(name, 'index.js')
    if (!isAdapterModule(module)) throw new Error(`${name} exports no fromConfig`)
    return async (options) => module.fromConfig(options)
  }

  test('takes a new option by one line of its table, and checks it', async () => {
    const open = await edited()
    expect(await open({ url, extraMs: 5 })).toBeTypeOf('function')
    expect(await open({ url, extraMs: '9ms' })).toBeTypeOf('function')
    await expect(open({ url, extraMs: 10 })).rejects.toThrow('extraMs must be a whole number from 1 to 9')
    await expect(open({ url, extraM: 5 })).rejects.toThrow('did you mean extraMs?')
    if (name === 'memory' || name === 'cas') return
    expect(await open({ url: `${url}?extraMs=5` })).toBeTypeOf('function')
    await expect(open({ url: `${url}?extraMs=10` })).rejects.toThrow('extraMs must be')
  })

  test('documents and types it by the same line', async () => {
    const declared = all.get(name)
    if (declared === undefined) throw new Error(`${name} declares no options`)
    const more = { ...declared, options: { ...declared.options, extraMs: extra } }
    const readme = withTable(await readFile(join(root, 'packages', name, 'README.md'), 'utf8'), more)
    expect(readme).toContain('| `extraMs` |  | yes | Something extra. |\n')
    expect(withInterfaces(`// <options Some>\n// </options>\n`, more)).toContain(
      '  /** Something extra. */\n  readonly extraMs?: Duration\n',
    )
    expect(withConfigs('// <options>\n// </options>\n', [more])).toContain('  readonly extraMs?: Duration\n')
  })
})

function isAdapterModule(module: unknown): module is { fromConfig(options: object): unknown } {
  return typeof module === 'object' && module !== null && 'fromConfig' in module
}

describe('what is generated', () => {
  /** A copy of the tree, which is as declared between the tests. */
  let folder = ''

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'locks-options-'))
    const parts = ['scripts/options.mjs', 'scripts/lib/options.mjs']
    for (const name of [...all.keys(), 'core'])
      for (const part of ['package.json', 'README.md', 'src', 'dist']) parts.push(`packages/${name}/${part}`)
    for (const part of parts) await cp(join(root, part), join(folder, part), { recursive: true })
    // A declaration may check values with what core exports.
    for (const folderOf of [...all.keys()].map((name) => join('packages', name, 'node_modules')))
      await symlink(join(root, folderOf), join(folder, folderOf))
  }, scaled(60_000))

  afterAll(() => rm(folder, { recursive: true, force: true }))

  async function check(tree: string): Promise<string> {
    const args = [join(tree, 'scripts/options.mjs'), '--check']
    return run(process.execPath, args, { cwd: tree }).then(
      () => 'fresh',
      (error: unknown) =>
        error instanceof Error && 'stderr' in error ? String(error.stderr) : String(error),
    )
  }

  const regenerate = async (): Promise<void> =>
    void (await run(process.execPath, [join(folder, 'scripts/options.mjs')], { cwd: folder }))

  test('is as declared', async () => {
    expect(await check(root)).toBe('fresh')
    expect(await check(folder)).toBe('fresh')
  })

  test.each([
    ['packages/redis/README.md', '| 3 s |', '| 4 s |'],
    ['packages/core/src/config/types.ts', "readonly store: 'file'", "readonly store: 'flie'"],
    // A declaration that was changed, and nothing else: its comment, or a value, which is built.
    ['packages/mysql/dist/option-table.js', 'default: 50', 'default: 60'],
    ['packages/zookeeper/src/option-table.ts', '    /** Where the locks are. ', '    /** Where locks are. '],
    ['packages/postgres/src/option-table.ts', '  readonly listen?: boolean', '  readonly listen?: string'],
    ['packages/redlock/src/option-table.ts', '  readonly quorum?: number\n', ''],
    ['packages/cas/src/stores/file.ts', '  readonly directory: string\n', ''],
  ] as const)(
    'and %s that is stale fails the check until it is written again',
    async (file, found, replaced) => {
      const text = await readFile(join(folder, file), 'utf8')
      expect(text.split(found)).toHaveLength(2)
      await writeFile(join(folder, file), text.replace(found, replaced))
      const isDeclaration = found.startsWith('    /**') || file.includes('dist')
      onTestFinished(async () => {
        await writeFile(join(folder, file), text)
        if (isDeclaration) await regenerate()
      })
      const stale = await check(folder)
      const named = isDeclaration ? file.replace(/(dist|src)\/option-table\.\w+/, 'README.md') : file
      expect(stale).toContain(`${named} does not show the options as declared; run: node scripts/options.mjs`)
      await regenerate()
      expect(await check(folder)).toBe('fresh')
      if (!isDeclaration) expect(await readFile(join(folder, file), 'utf8')).toBe(text)
    },
  )
})
