import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { againstOrder, checkRoomOrder } from '../lib/room-order.mjs'

test('the sources of core follow the order of rooms', async () => {
  const root = fileURLToPath(new URL('../../', import.meta.url))
  expect(await checkRoomOrder(root)).toEqual({ exitCode: 0, output: '' })
})

test.each([
  ['a value', 'engine/hold.ts', "import { b } from '../api/b.ts'"],
  ['a type', 'adapter/spi.ts', "import type { B } from '../engine/b.ts'"],
  ['a name that is exported again', 'api/locks.ts', "export { b } from '../config/b.ts'"],
  ['a type in place', 'engine/hold.ts', "type B = import('../conformance/b.ts').B"],
  ['an entry point of a room below', 'engine/hold.ts', "import { b } from '../adapter/index.ts'"],
  ['a file outside of all rooms', 'engine/hold.ts', "import { b } from '../b.ts'"],
])('%s against the order is found', async (_, file, text) => {
  const found = await inSources({ [file]: text })
  expect(found).toEqual([expect.stringContaining(`${file} imports `)])
})

test('imports in the order pass, and so do entry points', async () => {
  const files = {
    'index.ts': "export { b } from './config/b.ts'",
    'adapter/index.ts': "export { b } from '../config/b.ts'",
    'conformance/rules/a.ts': "import { b } from '../../api/b.ts'",
    'config/a.ts': "import { b } from '../api/b.ts'",
    'api/a.ts': "import { b } from '../engine/b.ts'\nimport type { C } from '../adapter/c.ts'",
    'engine/a.ts': "import { b } from './b.ts'",
  }
  expect(await inSources(files)).toEqual([])
})

async function inSources(files: Readonly<Record<string, string>>): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'locks-rooms-'))
  try {
    for (const [file, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, file)), { recursive: true })
      await writeFile(join(folder, file), text)
    }
    return await againstOrder(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
