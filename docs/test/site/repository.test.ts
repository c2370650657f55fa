import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { repositoryUrl } from '../../.vitepress/repository.ts'

test.each([
  [undefined, undefined],
  [{ type: 'git', url: 'git+https://code.example/me/locks.git' }, 'https://code.example/me/locks'],
  ['https://code.example/me/locks', 'https://code.example/me/locks'],
  [{ type: 'git', url: 'git@code.example:me/locks.git' }, undefined],
])('a repository of %j is linked as %s', async (repository, expected) => {
  const root = await mkdtemp(join(tmpdir(), 'locks-repository-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  await mkdir(join(root, 'packages/core'), { recursive: true })
  await writeFile(join(root, 'packages/core/package.json'), JSON.stringify({ repository }))
  expect(repositoryUrl(root)).toBe(expected)
})
