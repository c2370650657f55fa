import { versionedStoreContract } from '@locks/cas/contract'
import { afterAll, describe, test } from 'vitest'
import { hostVariant } from '../../conformance/host.ts'
import { storeFrom } from './http-store.mjs'
import { startServer } from './server.mjs'

const server = await startServer()
afterAll(() => server.stop())
const { host, port, url } = server
const specifier = new URL('http-store.mjs', import.meta.url).href

describe('store contract: http', () => {
  const subject = {
    name: 'http',
    open: storeFrom({ url }),
    drop: async (key: string) => void server.drop(key),
    module: { specifier, options: { url } },
  }
  for (const { title, timeoutMs, untested, run } of versionedStoreContract(subject))
    test(title, { timeout: timeoutMs }, ({ skip }) => (untested ? skip(untested) : run()))
})

// The adapter has the whole suite elsewhere, the store its contract above: what is left is the two together.
await hostVariant(
  {
    name: 'cas-http (example)',
    config: { adapter: specifier, url },
    wire: {
      target: { host, port },
      via: (proxy) => ({ adapter: specifier, url: `http://${proxy.host}:${proxy.port}/` }),
    },
  },
  { areas: ['atomicity', 'uniqueness', 'crash', 'lost replies'] },
)
