import { fileStore, memoryStore, redisStore, tairStore } from '@locks/cas'
import type { StoreFactory, VersionedStore } from '@locks/core/adapter'
import type { StoreSubject } from '@locks/core/conformance'
import { versionedStoreContract } from '@locks/core/conformance'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { isSelected } from '../../../conformance/selection.ts'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { folderOf } from '../src/stores/file-paths.ts'
import { startTairStub } from './support/tair-stub.ts'

function host(subject: StoreSubject): void {
  describe(`store contract: ${subject.name}`, () => {
    for (const { title, timeoutMs, untested, run } of versionedStoreContract(subject))
      test(title, { timeout: timeoutMs }, async ({ skip, signal }) => {
        if (untested !== undefined) skip(untested)
        await run({ signal })
      })
  })
}

host({ name: 'memory', open: memoryStore() })

const directory = await mkdtemp(join(tmpdir(), 'locks-cas-contract-'))
afterAll(() => rm(directory, { recursive: true, force: true }))
host({
  name: 'file',
  open: fileStore({ directory }),
  drop: (key) => rm(join(directory, folderOf(key)), { recursive: true }),
  module: { specifier: '@locks/cas', options: { store: 'file', directory } },
})

if (isSelected('cas-redis')) {
  const service = await startService('redis')
  afterAll(() => service.close())
  const { url, servers } = service
  host({
    name: 'redis',
    open: redisStore({ url }),
    async drop(key) {
      for (const server of servers) await redisCommand(server, 'DEL', `locks:cas:${key}`)
    },
    module: { specifier: '@locks/cas', options: { store: 'redis', url } },
  })
}

const stub = await startTairStub()
afterAll(() => stub.close())
host({
  name: 'tair, against a stub of its commands',
  open: tairStore({ url: stub.url }),
  drop: async (key) => void stub.records.delete(`locks:cas:${key}`),
  module: { specifier: '@locks/cas', options: { store: 'tair', url: stub.url } },
})

/** The store in memory with one method replaced. */
const altered = (alter: (store: VersionedStore) => Partial<VersionedStore>): StoreFactory => {
  const open = memoryStore()
  return () => {
    const store = open()
    const { scope, fencing } = store
    const sound = { get: store.get.bind(store), put: store.put.bind(store), close: store.close.bind(store) }
    return { scope, fencing, ...sound, ...alter(store) }
  }
}

/** Overwrites whatever is there. */
const heedless = altered((store) => ({
  put: async (key, value, _, durable) => store.put(key, value, (await store.get(key))?.version, durable),
}))

test.each([
  ['a store that is as it should be', '', altered(() => ({}))],
  ['one that ignores the version a put expects', 'STORE-1 STORE-2 STORE-4 STORE-7', heedless],
])('%s breaks these rules: %s', async (_, expected, open) => {
  const broken: string[] = []
  for (const { id, untested, run } of versionedStoreContract({ name: 'altered', open }))
    if (untested === undefined) await run().catch(() => void broken.push(id))
  expect(broken.join(' ')).toBe(expected)
})
