import { redis } from '@locks/redis'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { redisCommand, redisConversation, startService } from '../../../conformance/services/index.ts'
import { expectOneBound, expectRefusedAtOnce } from '../../../conformance/test-support/refusals.ts'
import { at, bare, uniqueName, until } from './support/bed.ts'

const service = await startService('redis', { needsControl: true })
afterAll(() => service.close())
const server = service.server('redis')
const { host, port } = server

test('a wrong password, an unknown user and no password at all are refused at once', async () => {
  const nobody = { host, port, username: 'nobody', password: 'secret' }
  await expectRefusedAtOnce(
    redis({ connection: nobody }),
    /refuses the user or the password.*correct them.*WRONGPASS/,
  )
  await redisCommand(server, 'ACL', 'SETUSER', 'alice', 'on', '>right', '~*', '&*', '+@all')
  const alice = { host, port, username: 'alice', password: 'wrong' }
  await expectRefusedAtOnce(redis({ connection: alice }), /WRONGPASS/)
  await expectRefusedAtOnce(redis({ connection: { ...alice, db: 1 } }), /WRONGPASS/)
  await redisCommand(server, 'ACL', 'SETUSER', 'default', 'off')
  onTestFinished(async () => {
    const { Redis } = await import('ioredis')
    const admin = new Redis({ host, port, username: 'alice', password: 'right' })
    await admin.call('ACL', 'SETUSER', 'default', 'on')
    admin.disconnect()
  })
  await expectRefusedAtOnce(redis({ connection: { host, port } }), /asks for a password.*NOAUTH/)
})

test('a user whose ACL forbids scripts or the keys of locks is refused at once', async () => {
  await redisCommand(server, 'ACL', 'SETUSER', 'reader', 'on', '>right', '~*', '&*', '+@all', '-@scripting')
  await redisCommand(server, 'ACL', 'SETUSER', 'tenant', 'on', '>right', '~tenant:*', '&*', '+@all')
  for (const username of ['reader', 'tenant'])
    await expectRefusedAtOnce(
      redis({ connection: { host, port, username, password: 'right' } }),
      /ACL of this user forbids.*allow it.*NOPERM/,
    )
})

test('a database that the server does not have, or forbids, is refused at once, and database 0 stays empty', async () => {
  const inDatabase = /no lock can be taken.*DB index is out of range/
  await expectRefusedAtOnce(redis({ url: `redis://${host}:${port}/99` }), inDatabase)
  await expectRefusedAtOnce(redis({ connection: { host, port, db: 99 } }), inDatabase)
  await redisCommand(server, 'ACL', 'SETUSER', 'first', 'on', '>right', '~*', '&*', '+@all', '-select')
  const second = { host, port, username: 'first', password: 'right', db: 1 }
  await expectRefusedAtOnce(redis({ connection: second }), /ACL of this user forbids.*NOPERM.*select/)
  expect(await redisCommand(server, 'DBSIZE')).toBe(0)
})

test.each([2, 3] as const)(
  'a server at maxclients is an outage in any database, by RESP%i',
  async (protocol) => {
    const { adapter, request, take } = bare({ connection: { host, port, db: 1, protocol } })
    await redisConversation(server, async (ask) => {
      const [, most] = [await ask('CONFIG', 'GET', 'maxclients')].flat()
      await ask('CONFIG', 'SET', 'maxclients', 1)
      try {
        // By RESP2, SELECT comes first and gets the refusal as its answer. The second attempt meets a connection in retry.
        for (let n = 0; n < 2; n += 1)
          await expect(adapter.attempt(request(uniqueName()))).rejects.toMatchObject({
            code: 'LOCK_UNAVAILABLE',
          })
      } finally {
        await ask('CONFIG', 'SET', 'maxclients', String(most))
      }
    })
    const wanted = request(uniqueName())
    await until(() => take(wanted).catch(() => false as const))
    expect(await redisCommand(server, 'DBSIZE')).toBe(0)
  },
)

test('a key of another type is refused at once', async () => {
  const name = uniqueName()
  await redisCommand(server, 'SET', name, 'a text')
  await expectRefusedAtOnce(redis(at(server)), /does not belong to a lock/, name)
})

test('a server that was killed takes storeTimeoutMs for every call, and is used once it is back', async () => {
  await expectOneBound(redis(at(server)), [server])
})
