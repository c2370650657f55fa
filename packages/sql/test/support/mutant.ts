import type { AdapterFactory } from '@locks/core'
import { cp, mkdtemp, realpath, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { onTestFinished } from 'vitest'
import { apply } from '../../../../conformance/mutants/mutant.ts'
import type { Edit } from '../../../../conformance/mutants/mutant.ts'

const packages = fileURLToPath(new URL('../../../', import.meta.url))

/** The exports that tests of a mutated SQL adapter use. */
export interface SqlAdapter {
  readonly fromConfig: (config: Readonly<Record<string, unknown>>) => AdapterFactory
  readonly migrate: (options: Readonly<Record<string, unknown>>) => Promise<void>
}

/** A copy of a built SQL adapter with deliberate bugs, on the client library of the original. */
export async function breedSqlAdapter(
  name: 'postgres' | 'mysql',
  client: string,
  edits: readonly Edit[],
): Promise<SqlAdapter> {
  const root = await mkdtemp(join(tmpdir(), 'locks-mutant-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  const home = join(root, 'node_modules', '@locks')
  for (const one of ['core', 'sql', name])
    for (const part of ['package.json', 'dist'])
      await cp(join(packages, one, part), join(home, one, part), { recursive: true })
  const found = await realpath(join(packages, name, 'node_modules', client))
  await symlink(found, join(root, 'node_modules', client))
  for (const edit of edits) await apply(home, edit)
  const adapter: unknown = await import(pathToFileURL(join(home, name, 'dist', 'index.js')).href)
  if (!isSqlAdapter(adapter)) throw new Error('the mutant is not an adapter')
  return adapter
}

function isSqlAdapter(module: unknown): module is SqlAdapter {
  return typeof module === 'object' && module !== null && 'fromConfig' in module && 'migrate' in module
}
