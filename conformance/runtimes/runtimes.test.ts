import { beforeAll, describe, expect, test } from 'vitest'
import { onDirectory, onServer, serverBackends } from '../config/backends.ts'
import { expected, outcomeOn } from '../config/program.ts'
import { isSelected } from '../selection.ts'
import { scaled } from '../services/timing.ts'
import { obtain } from './obtain.ts'
import type { Runtime } from './obtain.ts'

// Node 20 runs all the other tests.
const runtimes: readonly Runtime[] = [
  { spec: 'node@22', args: [] },
  { spec: 'node@24', args: [] },
  { spec: 'node@26', args: [] },
  { spec: 'bun@1', args: ['run'] },
  { spec: 'deno@2', args: ['run', '--allow-all', '--node-modules-dir=manual'] },
]
const timeout = scaled(120_000)

describe.each(runtimes)('on $spec', (runtime) => {
  let command: Awaited<ReturnType<typeof obtain>>
  beforeAll(async () => {
    command = await obtain(runtime)
  })

  if (isSelected('memory'))
    test('memory', { timeout }, async () => expect(await outcomeOn('memory:', command)).toEqual(expected))

  if (isSelected('cas-file'))
    test('cas-file', { timeout }, () =>
      onDirectory(async (config) => expect(await outcomeOn(config, command)).toEqual(expected)),
    )

  for (const backend of serverBackends)
    if (isSelected(backend.name))
      test(backend.name, { timeout }, () =>
        onServer(backend, async (config) => expect(await outcomeOn(config, command)).toEqual(expected)),
      )
})
