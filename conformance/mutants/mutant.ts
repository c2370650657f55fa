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
  /** Package and file below its `dist`, such as `core/hold.js`. */
  readonly file: string
  /** Must stand in the file exactly once: a mutant that no longer applies is an error. */
  readonly find: string
  readonly replace: string
}

const packages = fileURLToPath(new URL('../../packages/', import.meta.url))

/** A mutated copy of some packages, where they find each other and their clients. */
export async function copyOf(
  names: readonly string[],
  edits: readonly Edit[],
): Promise<{ readonly home: string; readonly dispose: () => Promise<void> }> {
  const root = await mkdtemp(join(tmpdir(), 'locks-mutant-'))
  const modules = join(root, 'node_modules')
  const home = join(modules, '@locks')
  for (const name of names)
    for (const part of ['package.json', 'dist'])
      await cp(join(packages, name, part), join(home, name, part), { recursive: true })
  if (names.includes('redis'))
    await symlink(join(packages, 'redis', 'node_modules', 'ioredis'), join(modules, 'ioredis'))
  for (const edit of edits) await apply(home, edit)
  return { home, dispose: () => rm(root, { recursive: true, force: true }) }
}

/** The suite of a mutated copy of the library, run on its memory adapter. */
export async function breed(edits: readonly Edit[]): Promise<{
  readonly cases: readonly kit.ConformanceCase[]
  readonly dispose: () => Promise<void>
}> {
  const { home, dispose } = await copyOf(['core', 'memory'], edits)
  const suite: unknown = await import(
    pathToFileURL(join(home, 'core', 'dist', 'conformance', 'index.js')).href
  )
  if (!isKit(suite)) throw new Error('the mutant has no suite')
  const adapter = join(home, 'memory', 'dist', 'index.js')
  const cases = await suite.conformance({ name: 'mutant', config: { adapter } })
  return { cases, dispose }
}

/** Copies of built packages, with the edits applied, in a directory that programs can be run in. */
export async function copyOf(
  names: readonly string[],
  edits: readonly Edit[],
): Promise<{ readonly root: string; readonly home: string; readonly dispose: () => Promise<void> }> {
  const root = await mkdtemp(join(tmpdir(), 'locks-mutant-'))
  const home = join(root, 'node_modules', '@locks')
  for (const name of names)
    for (const part of ['package.json', 'dist'])
      await cp(join(packages, name, part), join(home, name, part), { recursive: true })
  for (const edit of edits) await apply(home, edit)
  return { root, home, dispose: () => rm(root, { recursive: true, force: true }) }
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
