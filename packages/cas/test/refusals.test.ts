import { cas, redisStore, tairStore } from '@locks/cas'
import { afterAll, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { expectOneBound, expectRefusedAtOnce } from '../../../conformance/test-kit/refusals.ts'

const service = await startService('redis', { needsControl: true })
afterAll(() => service.close())
const server = service.server('redis')
const as = (user: string): string => `redis://${user}@${server.host}:${server.port}`

test('a wrong password and an unknown user are refused at once', async () => {
  await redisCommand(server, 'ACL', 'SETUSER', 'alice', 'on', '>right', '~*', '&*', '+@all')
  for (const user of ['alice:wrong', 'nobody:secret'])
    await expectRefusedAtOnce(
      cas(redisStore({ url: as(user) })),
      /refuses the user or the password.*WRONGPASS/,
    )
})

test('a user whose ACL forbids scripts is refused at once', async () => {
  await redisCommand(server, 'ACL', 'SETUSER', 'reader', 'on', '>right', '~*', '&*', '+@all', '-@scripting')
  await expectRefusedAtOnce(cas(redisStore({ url: as('reader:right') })), /ACL of this user forbids.*NOPERM/)
})

test('a key of another type is refused at once', async () => {
  await redisCommand(server, 'SET', 'locks:cas:taken', 'a text')
  await expectRefusedAtOnce(cas(redisStore({ url: server.url })), /value of another type.*WRONGTYPE/, 'taken')
})

test('a server without the module of Tair is refused at once', async () => {
  await expectRefusedAtOnce(cas(tairStore({ url: server.url })), /no command EXCAS.*load the module/)
})

test('a server that was killed takes storeTimeoutMs for every call, and is used once it is back', async () => {
  await expectOneBound(cas(redisStore({ url: server.url })), [server])
}, 60_000)
