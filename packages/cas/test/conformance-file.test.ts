import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
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
    const candidates = (await readdir(join(directory, '.floor'), { recursive: true })).map((entry) =>
      basename(entry),
    )
    // Another rule may have pruned it.
    const versions = await readdir(join(directory, folder)).catch((): string[] => [])
    // One file stays until the name is idle: it carries the fence.
    return [...candidates.filter((entry) => entry.startsWith(folder)), ...versions.toSorted().slice(1)]
  },
})
