import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const folder = join(import.meta.dirname, '../..')
const drivers = ['pg', 'postgres', 'mysql2']

/** What a file imports, and what the files imported from it import. */
async function importsOf(file: string, seen = new Set<string>()): Promise<ReadonlySet<string>> {
  if (seen.has(file)) return seen
  seen.add(file)
  const text = await readFile(file, 'utf8')
  for (const [, from = ''] of text.matchAll(/(?:from|import)\s*\(?'([^']+)'/g))
    if (from.startsWith('.')) {
      const target = file.endsWith('.d.ts') ? from.replace(/(?:\.d)?\.[jt]s$/, '.d.ts') : from
      await importsOf(join(file, '..', target), seen)
    } else seen.add(from)
  return seen
}

test.for(
  ['postgres', 'mysql'].flatMap((name) => ['transaction.js', 'transaction.d.ts'].map((file) => [name, file])),
)('%s/%s needs no driver: a program may have another one', async ([name = '', file = '']) => {
  const imports = [...(await importsOf(join(folder, name, 'dist', file)))]
  expect(imports).toContain('@locks/sql')
  expect(imports.filter((from) => drivers.includes(from.split('/')[0] ?? ''))).toEqual([])
})
