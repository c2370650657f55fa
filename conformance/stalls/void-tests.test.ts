import { execFile } from 'node:child_process'
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
const config = join(import.meta.dirname, 'fixture/vitest.config.ts')

test('tests of packages: void runs are tried again, three times in all; a failure is not, and leaves evidence', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'locks-void-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const env = { ...process.env, LOCKS_TEST_EVIDENCE: folder, LOCKS_TEST_HOME: import.meta.dirname }
  const output = await new Promise<string>((resolve) => {
    execFile(process.execPath, [vitest, 'run', '--config', config], { env }, (_, stdout) => resolve(stdout))
  })
  const told = [...output.matchAll(/^told: (.*)$/gm)].map(([, line]) => line)
  expect(told).toEqual([
    'void, then passed: passed after 1 void',
    'a lock lost by a stall, then passed: passed after 1 void',
    'void each time: failed after 3 void',
    'failed beside a stall: failed after 0 void',
  ])
  const kept = (await readdir(folder)).find((name) => name.includes('failed-beside-a-stall')) ?? ''
  const text = await readFile(join(folder, kept), 'utf8')
  expect(text).toMatch(/## Errors[^]*two holders[^]*Received: "two holders"[^]*## Stalls\nthis process: \d+/)
})
