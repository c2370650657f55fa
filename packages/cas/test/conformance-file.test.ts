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
    const candidates = await readdir(join(directory, '.new'))
    const versions = await readdir(join(directory, folder))
    // One file stays for ever: it carries the fence.
    return [...candidates.filter((entry) => entry.startsWith(folder)), ...versions.toSorted().slice(1)]
  },
})
