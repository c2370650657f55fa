import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { contentFaults, manifestFaults, repositoryFaults } from '../lib/metadata.mjs'
import { nextVersions } from '../lib/next-versions.mjs'
import { publicPackages } from '../lib/packages.mjs'
import { root } from '../lib/run.mjs'
import { scaled } from '../../conformance/services/timing.ts'

const packages = await publicPackages()

describe('packages', () => {
  test.each(packages)('the manifest of $name is complete', async (each) => {
    expect(await manifestFaults(each)).toEqual([])
  })

  test.for([
    { where: 'nothing', repository: undefined, isRight: true, isEnough: false },
    {
      where: 'type, url and directory',
      repository: { type: 'git', url: 'git+https://github.com/o/r.git', directory: 'packages/memory' },
      isRight: true,
      isEnough: true,
    },
    { where: 'a text', repository: 'o/r', isRight: false, isEnough: false },
    {
      where: 'no url',
      repository: { type: 'git', url: 'here', directory: 'packages/memory' },
      isRight: false,
      isEnough: false,
    },
    {
      where: 'the directory of another',
      repository: { type: 'git', url: 'git+https://github.com/o/r.git', directory: 'packages/redis' },
      isRight: false,
      isEnough: false,
    },
  ])(
    'a manifest whose repository is $where: right is $isRight, enough to publish is $isEnough',
    async ({ repository, isRight, isEnough }) => {
      const workspace = await mkdtemp(join(tmpdir(), 'locks-manifest-'))
      onTestFinished(() => rm(workspace, { recursive: true, force: true }))
      const folder = join(workspace, 'packages/memory')
      const manifest: unknown = JSON.parse(await readFile(join(root, 'packages/memory/package.json'), 'utf8'))
      await mkdir(folder, { recursive: true })
      await writeFile(join(folder, 'package.json'), JSON.stringify({ ...Object(manifest), repository }))
      const faults = await manifestFaults({ name: 'x', folder })
      expect(faults).toEqual(isRight ? [] : ['x: repository is not right'])
      expect(await repositoryFaults({ name: 'x', folder })).toEqual(
        isEnough ? [] : [expect.stringMatching(/^x: .*"directory": ?"packages\/memory"/)],
      )
    },
  )

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
      const folder = await mkdtemp(join(tmpdir(), 'locks-changesets-'))
      onTestFinished(() => rm(folder, { recursive: true, force: true }))
      await cp(join(root, '.changeset/config.json'), join(folder, 'config.json'))
      await writeFile(join(folder, 'one.md'), "---\n'@locks/redlock': minor\n---\n\nKnows a new trick.\n")
      for (const { name, version, next, changelog } of await nextVersions(folder)) {
        const isNamed = name === '@locks/redlock'
        expect(next === version, name).toBe(!isNamed)
        expect(changelog.includes('Knows a new trick.'), name).toBe(isNamed)
      }
    },
  )

  test('the pending changesets name packages that exist', { timeout: scaled(60_000) }, async () => {
    const versions = await nextVersions()
    expect(versions.map(({ name }) => name)).toContain('@locks/core')
  })
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

  test('a release waits for CI, and nothing else may write or sees a secret', async () => {
    const [ci, release] = [await workflow('ci.yml'), await workflow('release.yml')]
    expect(release).toMatch(/^  ci:\n    uses: \.\/\.github\/workflows\/ci\.yml$/m)
    expect(release).toMatch(/^  release:\n(?: {4}.*\n)*? {4}needs: \[ci, all\]$/m)
    // A pull request runs untrusted code.
    expect(release).not.toContain('pull_request:')
    expect(ci).not.toMatch(/pull_request_target|secrets|: write/)
    for (const text of [ci, release]) expect(text).toMatch(/^permissions:\n  contents: read$/m)
  })
})
