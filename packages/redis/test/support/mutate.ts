import type * as adapter from '@locks/redis'
import { cp, mkdtemp, realpath, rm, symlink, mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { onTestFinished } from 'vitest'
import { apply } from '../../../../conformance/mutants/mutant.ts'
import type { Edit } from '../../../../conformance/mutants/mutant.ts'

export type Factory = typeof adapter.redis

/** The adapter with some edits, beside the core and the client that the healthy one has. */
export async function mutate(edits: readonly Edit[], library = 'ioredis'): Promise<Factory> {
  const root = await mkdtemp(join(tmpdir(), 'locks-redis-mutant-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  const own = fileURLToPath(new URL('../..', import.meta.url))
  const home = join(root, 'node_modules', '@locks')
  await mkdir(home, { recursive: true })
  for (const part of ['package.json', 'dist'])
    await cp(join(own, part), join(home, 'redis', part), { recursive: true })
  await symlink(await realpath(join(own, 'node_modules/@locks/core')), join(home, 'core'))
  await symlink(await realpath(join(own, 'node_modules', library)), join(root, 'node_modules/ioredis'))
  for (const edit of edits) await apply(home, edit)
  const module: unknown = await import(pathToFileURL(join(home, 'redis/dist/index.js')).href)
  if (!isAdapter(module)) throw new Error('the mutant has no adapter')
  return module.redis
}

function isAdapter(module: unknown): module is typeof adapter {
  return typeof module === 'object' && module !== null && 'redis' in module
}
