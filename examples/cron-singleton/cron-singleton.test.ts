import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { scaled } from '../../conformance/services/timing.ts'
import { start, workplace } from '../test-support/program.ts'

const program = join(import.meta.dirname, 'main.mjs')

test('three processes work on every tick once', { timeout: scaled(60_000) }, async () => {
  const cwd = await workplace()
  const programs = [1, 2, 3].map(() => start(program, { cwd, env: { TICK_MS: '500' } }))
  // Able to end as they should.
  for (const each of programs) await each.said(/waiting for ticks/)
  const ticks = async (): Promise<string[]> =>
    (await readFile(join(cwd, 'reports.txt'), 'utf8').catch(() => '')).split('\n').filter(Boolean)
  await expect.poll(async () => (await ticks()).length, { timeout: scaled(40_000) }).toBeGreaterThanOrEqual(6)
  for (const each of programs) each.kill('SIGTERM')
  for (const { ended } of programs) expect((await ended).exitCode).toBe(0)
  const done = await ticks()
  expect(new Set(done).size).toBe(done.length)
  const said = programs.flatMap(({ output }) => output.match(/tick \d+ by \d+/g) ?? [])
  expect(said).toHaveLength(done.length)
})
