import { lineFrames } from '@locks/core/conformance'
import { startReferenceServer } from '@locks/reference'
import { afterAll } from 'vitest'
import { hostVariant } from '../../host.ts'

const server = await startReferenceServer()
afterAll(() => server.stop())

await hostVariant({
  name: 'reference',
  config: server.config,
  wire: { target: server, via: server.via, frames: lineFrames },
  server,
})
