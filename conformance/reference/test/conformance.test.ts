import { startReferenceServer } from '@locks/reference'
import { afterAll } from 'vitest'
import { hostConformance } from '../../host.ts'
import { lineFrames } from '../../test-kit/frames.ts'

const server = await startReferenceServer()
afterAll(() => server.stop())

await hostConformance({
  name: 'reference',
  config: server.config,
  wire: { target: server, via: server.via, frames: lineFrames },
  server,
})
