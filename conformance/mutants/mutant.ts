import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type * as kit from '@locks/core/conformance'

/** One deliberate bug, as an edit of built code, and the rule that must notice it. */
export interface Mutant {
  /** What is wrong with it. */
  readonly bug: string
  /** The rule that catches it. */
  readonly rule: string
  /** What the rule needs to run at all: the healthy library passes it with these. */
  readonly given?: readonly Edit[]
  readonly edits: readonly Edit[]
}

export interface Edit {
  /** Package and file below its `dist`, such as `core/engine/hold.js`. */
  readonly file: string
  /** Must stand in the file exactly once: a mutant that no longer applies is an error. */
  readonly find: string
  readonly replace: string
}

const packages = fileURLToPath(new URL('../../packages/', import.meta.url))
const reference = fileURLToPath(new URL('../reference/', import.meta.url))

/** A mutated copy of built packages, where they find each other and their clients. */
export interface Copy {
  /** A directory that programs can be run in. */
  readonly root: string
  /** Where the packages are. */
  readonly home: string
  /** A module of it, by package and file below its `dist`. */
  readonly load: (name: string, file: string) => Promise<unknown>
  readonly pathOf: (name: string, file: string) => string
  readonly dispose: () => Promise<void>
}

export async function copyOf(names: readonly string[], edits: readonly Edit[]): Promise<Copy> {
  const root = await mkdtemp(join(tmpdir(), 'locks-mutant-'))
  const modules = join(root, 'node_modules')
  const home = join(modules, '@locks')
  for (const name of names)
    for (const part of ['package.json', 'dist']) {
      const source = name === 'reference' ? reference : join(packages, name)
      await cp(join(source, part), join(home, name, part), { recursive: true, filter: isNeeded })
    }
  if (names.includes('redis'))
    await symlink(join(packages, 'redis', 'node_modules', 'ioredis'), join(modules, 'ioredis'))
  for (const edit of edits) await apply(home, edit)
  const pathOf = (name: string, file: string): string => join(home, name, 'dist', file)
  return {
    root,
    home,
    pathOf,
    load: (name, file) => import(pathToFileURL(pathOf(name, file)).href),
    dispose: () => rm(root, { recursive: true, force: true }),
  }
}

/** Of what is built, the code: types are for compilers. */
function isNeeded(path: string): boolean {
  return !/\.(d\.ts|map|tsbuildinfo)$/.test(path)
}

/** The suite of a mutated copy of the library. */
export async function suiteOf({ load }: Copy): Promise<typeof kit> {
  const suite = await load('core', 'conformance/index.js')
  if (!isKit(suite)) throw new Error('the mutant has no suite')
  return suite
}

/** The suite of a mutated copy of the library, run on its memory adapter. */
export async function breed(edits: readonly Edit[]): Promise<{
  readonly cases: readonly kit.ConformanceCase[]
  readonly dispose: () => Promise<void>
}> {
  const copy = await copyOf(['core', 'memory'], edits)
  const { conformance } = await suiteOf(copy)
  const cases = await conformance({ name: 'mutant', config: { adapter: copy.pathOf('memory', 'index.js') } })
  return { cases, dispose: copy.dispose }
}

/** Applies an edit to a copy of the packages in `home`. */
export async function apply(home: string, { file, find, replace }: Edit): Promise<void> {
  const [name = '', ...path] = file.split('/')
  const target = join(home, name, 'dist', ...path)
  const text = await readFile(target, 'utf8')
  const places = text.split(find).length - 1
  if (places !== 1) throw new Error(`${file}: ${JSON.stringify(find)} stands there ${places} times, not once`)
  await writeFile(
    target,
    text.replace(find, () => replace),
  )
}

function isKit(module: unknown): module is typeof kit {
  return typeof module === 'object' && module !== null && 'conformance' in module
}
