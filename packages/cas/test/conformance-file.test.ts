import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { hostConformance } from '../../../conformance/host.ts'
import { folderOf } from '../src/stores/file-paths.ts'

const directory = await mkdtemp(join(tmpdir(), 'locks-cas-'))
afterAll(() => rm(directory, { recursive: true, force: true }))

await hostConformance({
  name: 'cas-file',
  config: { adapter: '@locks/cas', store: 'file', directory },
  async leftovers(lock) {
    const folder = folderOf(lock)
    // Other rules make and prune keys meanwhile: what has gone since it was listed has nothing left in it.
    const list = (...path: string[]): Promise<string[]> =>
      readdir(join(directory, ...path)).catch((): string[] => [])
    const floors = await readdir(join(directory, '.floor'))
    const candidates = (await Promise.all(floors.map((floor) => list('.floor', floor)))).flat()
    const versions = await list(folder)
    // One file stays until the name is idle: it carries the fence.
    return [...candidates.filter((entry) => entry.startsWith(folder)), ...versions.toSorted().slice(1)]
  },
})
