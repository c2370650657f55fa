import type { LocksConfig } from '@locks/core'
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { isSelected } from '../selection.ts'
import { scaled } from '../services/timing.ts'
import { onDirectory, onServer, serverBackends } from './backends.ts'

const run = promisify(execFile)
const program = join(import.meta.dirname, 'program.fixture.mjs')

/** A URL by the environment, anything else as an argument: the program itself is the same. */
async function outcomeOn(config: LocksConfig): Promise<unknown> {
  const { LOCKS_URL: _, ...env } = process.env
  const isUrl = typeof config === 'string'
  const { stdout } = await run(process.execPath, [program, ...(isUrl ? [] : [JSON.stringify(config)])], {
    cwd: join(import.meta.dirname, '..'),
    env: isUrl ? { ...env, LOCKS_URL: config } : env,
    timeout: scaled(90_000),
  })
  return JSON.parse(stdout)
}

const expected = { refused: true, timedOut: true, rising: true, seen: true, free: true, result: 'held' }
const timeout = scaled(120_000)

describe('one unchanged program, by config alone', () => {
  test('names no adapter', async () => {
    const imports = (await readFile(program, 'utf8')).match(/from '[^']+'/g)
    expect(imports).toEqual(["from '@locks/core'"])
  })

  if (isSelected('memory'))
    test('on memory', async () => expect(await outcomeOn('memory:')).toEqual(expected))

  if (isSelected('cas-memory'))
    test('on cas-memory', async () =>
      expect(await outcomeOn({ adapter: '@locks/cas', store: 'memory' })).toEqual(expected))

  if (isSelected('cas-file'))
    test('on cas-file', { timeout }, () =>
      onDirectory(async (config) => expect(await outcomeOn(config)).toEqual(expected)),
    )

  for (const backend of serverBackends)
    if (isSelected(backend.name))
      test(`on ${backend.name}`, { timeout }, () =>
        onServer(backend, async (config) => expect(await outcomeOn(config)).toEqual(expected)),
      )

  if (isSelected('cas-file') && isSelected('memory'))
    test('on each of several named stores', { timeout }, () =>
      onDirectory(async (file) => {
        if (typeof file !== 'string') throw new Error('not a URL')
        const stores = { quick: 'memory:', shared: file }
        for (const usual of ['quick', 'shared'])
          expect(await outcomeOn({ stores, default: usual })).toEqual(expected)
      }),
    )
})
