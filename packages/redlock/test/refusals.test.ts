import { redlock } from '@locks/redlock'
import { afterAll, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { expectOneBound, expectRefusedAtOnce } from '../../../conformance/test-support/refusals.ts'

const service = await startService('redis-independent', { needsControl: true })
afterAll(() => service.close())
const { servers } = service

test('nodes that refuse the password are refused at once', async () => {
  const nodes = servers.map(({ host, port }) => ({
    connection: { host, port, username: 'nobody', password: 'x' },
  }))
  await expectRefusedAtOnce(redlock({ nodes }), /refuses the user or the password/)
})

test('nodes whose ACL forbids scripts are refused at once', async () => {
  for (const server of servers)
    await redisCommand(server, 'ACL', 'SETUSER', 'reader', 'on', '>right', '~*', '&*', '+@all', '-@scripting')
  const nodes = servers.map(({ host, port }) => ({
    connection: { host, port, username: 'reader', password: 'right' },
  }))
  await expectRefusedAtOnce(redlock({ nodes }), /ACL of this user forbids/)
})

test('servers that were killed take storeTimeoutMs for every call, and are used once they are back', async () => {
  await expectOneBound(redlock({ nodes: servers.map(({ url }) => url) }), servers)
})
