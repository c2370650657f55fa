import { cas, redisStore, tairStore } from '@locks/cas'
import { afterAll, expect, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { expectOneBound, expectRefusedAtOnce } from '../../../conformance/test-support/refusals.ts'

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

test.each([
  ['hash', ['HSET', 'locks:cas:a hash', 'version', '5', 'value', 'apples']],
  ['text', ['SET', 'locks:cas:a text', '5 apples']],
])('a key with a %s of an application is refused at once, and stays as it is', async (kind, make) => {
  const key = `locks:cas:a ${kind}`
  await redisCommand(server, ...make)
  const before = await redisCommand(server, 'DUMP', key)
  const refused = /value of another type.*WRONGTYPE/
  await expectRefusedAtOnce(cas(redisStore({ url: server.url })), refused, `a ${kind}`)
  expect(await redisCommand(server, 'DUMP', key)).toEqual(before)
})

test('a server without the module of Tair is refused at once', async () => {
  await expectRefusedAtOnce(cas(tairStore({ url: server.url })), /no command EXCAS.*load the module/)
})

test('a server that was killed takes storeTimeoutMs for every call, and is used once it is back', async () => {
  await expectOneBound(cas(redisStore({ url: server.url })), [server])
})
