import { tairStore } from '@locks/cas'
import { versionedStoreContract } from '@locks/core/conformance'
import { redisFrames } from '@locks/core/conformance'
import { test } from 'vitest'
import { hostConformance } from '../../../conformance/host.ts'

const url = process.env['LOCKS_TEST_TAIR_URL']

if (url === undefined) {
  test('cas-tair: the store contract and the conformance suite', ({ skip }) => {
    skip('LOCKS_TEST_TAIR_URL names no server that has the TairString commands')
  })
} else {
  const config = { adapter: '@locks/cas', store: 'tair', url }
  const module = { specifier: '@locks/cas', options: { store: 'tair', url } }
  for (const { title, timeoutMs, untested, run } of versionedStoreContract({
    name: 'tair',
    open: tairStore({ url }),
    module,
  }))
    test(`store contract: tair ${title}`, { timeout: timeoutMs }, async ({ skip }) => {
      if (untested !== undefined) skip(untested)
      await run()
    })
  const { hostname: host, port } = new URL(url)
  const via = (proxy: { host: string; port: number }) => {
    const through = new URL(url)
    through.hostname = proxy.host
    through.port = String(proxy.port)
    return { ...config, url: through.href }
  }
  await hostConformance({
    name: 'cas-tair',
    config,
    wire: { target: { host, port: Number(port || 6379) }, via, frames: redisFrames },
  })
}
