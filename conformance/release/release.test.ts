import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { contentFaults, manifestFaults } from '../../scripts/lib/metadata.mjs'
import { publicPackages } from '../../scripts/lib/packages.mjs'
import { root } from '../../scripts/lib/run.mjs'
import { scaled } from '../services/timing.ts'

const run = promisify(execFile)
const packages = await publicPackages()

describe('packages', () => {
  test.each(packages)('the manifest of $name is complete', async (each) => {
    expect(await manifestFaults(each)).toEqual([])
  })

  test('a tarball with anything but code, types and what people read is found out', () => {
    const [name, entries] = ['x', ['x']]
    const files = ['package.json', 'README.md', 'LICENSE', 'dist/index.js', 'dist/index.d.ts']
    expect(contentFaults({ name, entries, files })).toEqual([])
    expect(contentFaults({ name, entries, files: [...files, 'src/index.ts', 'dist/.tsbuildinfo'] })).toEqual([
      'x: src/index.ts should not be published',
      'x: dist/.tsbuildinfo should not be published',
    ])
    expect(contentFaults({ name, entries, files: files.slice(0, 2) })).toHaveLength(3)
  })
})

describe('versions', () => {
  test(
    'each package has its own, with a changelog, from the changesets that name it',
    { timeout: scaled(60_000) },
    async () => {
      const workspace = await copyOfManifests()
      await mkdir(join(workspace, '.changeset'))
      await cp(join(root, '.changeset/config.json'), join(workspace, '.changeset/config.json'))
      await writeFile(
        join(workspace, '.changeset/one.md'),
        "---\n'@locks/redlock': minor\n---\n\nKnows a new trick.\n",
      )
      const changeset = join(root, 'node_modules/@changesets/cli/bin.js')
      await run(process.execPath, [changeset, 'version'], { cwd: workspace })
      for (const { name, folder, version } of packages) {
        const now = await readFile(join(workspace, relative(root, folder), 'package.json'), 'utf8')
        expect(now.includes(`"version": "${version}"`), name).toBe(name !== '@locks/redlock')
      }
      expect(await readFile(join(workspace, 'packages/redlock/CHANGELOG.md'), 'utf8')).toContain(
        'Knows a new trick.',
      )
      expect(await readdir(join(workspace, '.changeset'))).toEqual(['config.json'])
    },
  )
})

describe('workflows', () => {
  const workflow = (name: string): Promise<string> => readFile(join(root, '.github/workflows', name), 'utf8')

  test('CI does what .ci/run does, on every Node that is supported', async () => {
    const text = await workflow('ci.yml')
    expect(text).toMatch(/^ +run: \.ci\/run$/m)
    expect(text).toContain('node: [20, 22, 24, 26]')
  })

  test('a release may prove where it comes from, and does no more than the scripts', async () => {
    const text = await workflow('release.yml')
    expect(text).toContain('id-token: write')
    expect(text).toContain('publish: npm run release')
  })
})

/** The workspace as changesets sees it. */
async function copyOfManifests(): Promise<string> {
  const workspace = await mkdtemp(join(tmpdir(), 'locks-versions-'))
  onTestFinished(() => rm(workspace, { recursive: true, force: true }))
  const manifests = packages.map(({ folder }) => join(relative(root, folder), 'package.json'))
  for (const file of ['package.json', 'pnpm-workspace.yaml', ...manifests]) {
    await mkdir(dirname(join(workspace, file)), { recursive: true })
    await cp(join(root, file), join(workspace, file))
  }
  return workspace
}
