import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { providePnpm } from '../../scripts/bootstrap.mjs'
import { pack, publicPackages } from '../../scripts/lib/packages.mjs'
import { root, run } from '../../scripts/lib/run.mjs'
import { scaled } from '../../conformance/services/timing.ts'
import { stepsOf } from './readme.ts'

/** Every project of the page about Jest, built from the packed packages and run, word for word. */
const page = 'docs/jest.md'
const text = await readFile(join(root, page), 'utf8')
const sections = [...text.matchAll(/^## (.*)$/gm)].map(([, heading = '']) => heading)

const tarballs = new Map<string, string>()

beforeAll(async () => {
  const folder = await mkdtemp(join(tmpdir(), 'locks-jest-pack-'))
  await providePnpm()
  for (const each of await publicPackages())
    if (['@locks/core', '@locks/memory'].includes(each.name))
      tarballs.set(each.name, (await pack(each, folder)).tarball)
  return () => rm(folder, { recursive: true, force: true })
}, scaled(120_000))

describe('a project with Jest or CommonJS', () => {
  test('has its sections', () => expect(sections.length).toBeGreaterThan(4))

  for (const section of sections)
    test(section, { timeout: scaled(600_000) }, async () => {
      const directory = await mkdtemp(join(tmpdir(), 'locks-jest-'))
      onTestFinished(() => rm(directory, { recursive: true, force: true }))
      await writeFile(join(directory, 'package.json'), '{ "private": true }')
      let last = ''
      for (const step of await stepsOf(section, page)) {
        if ('file' in step) {
          await writeFile(join(directory, step.file), step.text)
          continue
        }
        const command = step.command.replaceAll(/@locks\/\w+/g, (name) => tarballs.get(name) ?? name)
        const { exitCode, output } = await run('sh', ['-ec', command], { cwd: directory })
        expect({ exitCode, output }).toMatchObject({ exitCode: 0 })
        last = output
      }
      // What ran at the end is a test of Jest, or the program.
      expect(last).toMatch(/^Tests: +1 passed, 1 total$|^bigint$/m)
    })
})
