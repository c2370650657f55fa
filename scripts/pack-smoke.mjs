import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { bootstrap } from './bootstrap.mjs'
import { packAll } from './lib/packages.mjs'
import { root, run, runMain, step } from './lib/run.mjs'

// Runs as it stands, and is type-checked as part of the consumer.
const program = `
const { createLocks } = await import('@locks/core')
const { memory } = await import('@locks/memory')
const locks = createLocks(memory())
const fence = await locks.with('a', async (lease) => lease.fence)
if (typeof fence !== 'bigint') throw new Error('the fence is not a bigint')
await locks.close()
`

/**
 * Installs the packed packages into a project outside the workspace with plain npm, and uses them
 * there by import, by require and from TypeScript.
 *
 * @param {readonly import('./lib/packages.mjs').PackedPackage[]} packed
 * @returns {Promise<{ exitCode: number, output: string }>}
 */
export async function packSmoke(packed) {
  const project = await mkdtemp(join(tmpdir(), 'locks-smoke-'))
  try {
    const entries = packed.flatMap((each) => each.entries)
    await writeProject(project, entries)
    const tarballs = packed.map(({ tarball }) => tarball)
    // What a program in TypeScript has beside Node and pg anyway.
    const types = [`@types/node@${await nodeTypesVersion()}`, '@types/pg@8']
    /** @type {[string, string[]][]} */
    const commands = [
      ['npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', ...tarballs, ...types]],
      [process.execPath, ['import.mjs']],
      [process.execPath, ['require.cjs']],
      [process.execPath, ['program.mjs']],
      ['tsc', ['--project', 'node16.json']],
      ['tsc', ['--project', 'nodenext.json']],
      ['tsc', ['--project', 'bundler.json']],
    ]
    for (const [command, args] of commands) {
      const { exitCode, output } = await run(command, args, { cwd: project })
      if (exitCode !== 0) return { exitCode, output: `${args.join(' ')}\n${output}` }
    }
    return { exitCode: 0, output: '' }
  } finally {
    await rm(project, { recursive: true, force: true })
  }
}

/**
 * @param {string} project
 * @param {readonly string[]} entries
 */
async function writeProject(project, entries) {
  const imports = entries.map((entry, index) => `import * as entry${index} from '${entry}'`).join('\n')
  const used = `console.log(${entries.map((_, index) => `entry${index}`).join(', ')})`
  const options = {
    noEmit: true,
    strict: true,
    target: 'es2023',
    types: ['node'],
    lib: ['es2023', 'esnext.disposable'],
  }
  const modules = {
    node16: { module: 'node16' },
    nodenext: { module: 'nodenext' },
    bundler: { module: 'esnext', moduleResolution: 'bundler' },
  }
  const files = {
    'package.json': JSON.stringify({ name: 'consumer', private: true, type: 'module' }),
    'import.mjs': `${imports}\n${used}`,
    'require.cjs': entries.map((entry) => `console.log(require('${entry}'))`).join('\n'),
    'program.mjs': program,
    'consumer.ts': `${imports}\n${used}\n${program}`,
    ...Object.fromEntries(
      Object.entries(modules).map(([name, module]) => [
        `${name}.json`,
        JSON.stringify({ compilerOptions: { ...options, ...module }, files: ['consumer.ts'] }),
      ]),
    ),
  }
  for (const [name, text] of Object.entries(files)) await writeFile(join(project, name), text)
}

async function nodeTypesVersion() {
  const manifest = await readFile(join(root, 'node_modules', '@types', 'node', 'package.json'), 'utf8')
  return String(JSON.parse(manifest).version)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await runMain(async () => {
    await bootstrap()
    const folder = await mkdtemp(join(tmpdir(), 'locks-pack-'))
    try {
      await step('pack-smoke', async () => packSmoke(await packAll(folder)))
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })
}
