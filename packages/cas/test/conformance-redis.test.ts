import { redisFrames } from '@locks/core/conformance'
import { afterAll } from 'vitest'
import { affectedUnderTorture, hostVariant } from '../../../conformance/host.ts'
import { isSelected } from '../../../conformance/selection.ts'
import { redisCommand, startService } from '../../../conformance/services/index.ts'

const secret = 'correct-horse'

if (isSelected('cas-redis')) {
  const user = `locks on >${secret} ~* &* +@all`
  const settings = { appendonly: 'yes', appendfsync: 'always', user }
  const service = await startService('redis', { settings })
  afterAll(() => service.close())
  const server = service.server('redis')
  const at = ({ host, port }: { host: string; port: number }) => ({
    adapter: '@locks/cas',
    store: 'redis',
    url: `redis://locks:${secret}@${host}:${port}`,
  })

  await hostVariant(
    {
      name: 'cas-redis',
      config: at(server),
      secret,
      wire: { target: { host: server.host, port: server.port }, via: at, frames: redisFrames },
      server: {
        pause: () => server.pause(),
        resume: () => server.resume(),
        restart: () => server.restart({ hard: true }),
      },
      async leftovers(lock) {
        const keys = await redisCommand(server, 'KEYS', `*${lock}*`)
        // One key stays: it carries the fence.
        return Array.isArray(keys) ? keys.map(String).filter((key) => key !== `locks:cas:${lock}`) : []
      },
    },
    { areas: [...affectedUnderTorture, 'pause'] },
  )
}
