import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { isSelected } from '../selection.ts'
import { scaled } from '../services/timing.ts'
import { onDirectory, onServer, serverBackends } from './backends.ts'
import { expected, outcomeOn, program } from './program.ts'

const timeout = scaled(120_000)

describe('one unchanged program, by config alone', () => {
  test('names no adapter', async () => {
    const imports = (await readFile(program, 'utf8')).match(/from '[^']+'/g)
    expect(imports).toEqual(["from '@locks/core'", "from 'node:timers/promises'"])
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
