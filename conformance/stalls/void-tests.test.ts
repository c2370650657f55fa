import { execFile } from 'node:child_process'
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
const config = join(import.meta.dirname, 'fixture/vitest.config.ts')

interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly {
      readonly title: string
      readonly status: string
      readonly meta: object
    }[]
  }[]
}

test('tests of packages: void runs are tried again, three times in all; a failure is not, and leaves evidence', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'locks-void-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const env = { ...process.env, LOCKS_TEST_EVIDENCE: folder, LOCKS_TEST_HOME: import.meta.dirname }
  const output = await new Promise<string>((resolve) => {
    execFile(process.execPath, [vitest, 'run', '--config', config], { env }, (_, stdout) => resolve(stdout))
  })
  const { testResults }: Report = JSON.parse(output)
  const results = testResults.flatMap(({ assertionResults }) => assertionResults)
  const voids = (count: number) => ({
    voids: Array.from({ length: count }, () => expect.stringMatching(/^void: /)),
  })
  expect(results.map(({ title, status, meta }) => [title, status, meta])).toEqual([
    ['void, then passed', 'passed', expect.objectContaining(voids(1))],
    ['a lock lost by a stall, then passed', 'passed', expect.objectContaining(voids(1))],
    ['void each time', 'failed', expect.objectContaining(voids(3))],
    ['failed beside a stall', 'failed', { evidence: expect.stringContaining('failed-beside-a-stall') }],
  ])
  const kept = (await readdir(folder)).find((name) => name.includes('failed-beside-a-stall')) ?? ''
  const text = await readFile(join(folder, kept), 'utf8')
  expect(text).toMatch(/## Errors[^]*two holders[^]*## Stalls\nthis process: \d+/)
})
