import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { isSelected } from '../../conformance/selection.ts'
import { startService } from '../../conformance/services/index.ts'
import { scaled } from '../../conformance/services/timing.ts'
import { start, workplace } from '../test-support/program.ts'

const timeout = scaled(60_000)
const program = join(import.meta.dirname, 'main.mjs')

async function visitsOf(env: Record<string, string>, scope: string): Promise<void> {
  const cwd = await workplace()
  const programs = [1, 2, 3].map(() => start(program, { args: ['20'], cwd, env }))
  for (const { ended } of programs)
    expect((await ended).output).toBe(`counted 20 visits under locks of scope ${scope}\n`)
  expect(await readFile(join(cwd, 'visits.txt'), 'utf8')).toBe('60')
}

test('processes lose no visit under the store of locks.json', { timeout }, () => visitsOf({}, 'host'))

if (isSelected('redis'))
  test('nor under one that the environment names', { timeout }, async () => {
    await using service = await startService('redis')
    await visitsOf({ LOCKS_URL: service.url }, 'cluster')
  })

test('a store that the file does not know is refused by name', { timeout }, async () => {
  const cwd = await workplace()
  const { exitCode, output } = await start(program, { cwd, env: { LOCKS_STORE: 'staging' } }).ended
  expect(output).toContain('config has no store "staging"; its stores: development, production')
  expect(exitCode).toBe(1)
})
