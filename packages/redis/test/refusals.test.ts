import { redis } from '@locks/redis'
import { Redis } from 'ioredis'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer } from 'node:tls'
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

test('a node of a Cluster is refused at once without redis+cluster://', async () => {
  const cluster = await startService('redis-cluster')
  // After the clients, which withdraw their attempts there.
  onTestFinished(() => cluster.close())
  const [first] = cluster.servers
  const slots = new Map<number, string>()
  for (let n = 0; slots.size < 60; n += 1) slots.set(n, uniqueName())
  // The first node has a third of all slots.
  const admin = new Redis(first?.port ?? 0, first?.host ?? '', { lazyConnect: true })
  let moved = ''
  for (const name of slots.values())
    await admin
      .get(`locks:${name}`)
      .catch((error: unknown) => void (moved = /MOVED/.test(String(error)) ? name : moved))
  admin.disconnect()
  await expectRefusedAtOnce(
    redis({ url: `redis://${first?.host}:${first?.port}` }),
    /node of a Cluster.*redis\+cluster:\/\/.*MOVED/,
    moved,
  )
})

test('a server without a command that locks need is refused at once', async () => {
  const poor = await startService('redis', { settings: { 'rename-command': 'EVALSHA none' } })
  onTestFinished(() => poor.close())
  await expectRefusedAtOnce(redis({ url: poor.url }), /does not know a command.*unknown command/)
})

test('a given client that subscribes, or was ended by the program, is refused at once', async () => {
  const subscriber = new Redis({ host, port, protocol: 2 })
  onTestFinished(() => subscriber.disconnect())
  await subscriber.subscribe('news')
  await expectRefusedAtOnce(redis({ client: subscriber }), /subscribed.*; give a client of its own/)
  const ended = new Redis({ host, port })
  await ended.quit()
  await expectRefusedAtOnce(redis({ client: ended }), /was ended.*; give a client that is open/)
})

test('a certificate that nobody signed, or for another host, is refused at once', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'locks-tls-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const [keyFile, certFile] = [join(directory, 'key.pem'), join(directory, 'certificate.pem')]
  const selfSigned = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=elsewhere']
  execFileSync('openssl', [...selfSigned, '-keyout', keyFile, '-out', certFile], { stdio: 'ignore' })
  const [key, cert] = [readFileSync(keyFile), readFileSync(certFile)]
  const front = createServer({ key, cert }, (client) => {
    const behind = connect(port, host)
    client.on('error', () => undefined).on('close', () => behind.destroy())
    behind.on('error', () => undefined).on('close', () => client.destroy())
    client.pipe(behind).pipe(client)
  }).listen(0, '127.0.0.1')
  front.on('tlsClientError', () => undefined)
  onTestFinished(() => void front.close())
  await once(front, 'listening')
  const address = front.address()
  const its = typeof address === 'object' ? (address?.port ?? 0) : 0
  const refusal = /certificate of the server is not trusted.*; give/
  await expectRefusedAtOnce(redis({ url: `rediss://127.0.0.1:${its}` }), refusal)
  const mismatch = redis({ connection: { host: '127.0.0.1', port: its, tls: { ca: cert } } })
  await expectRefusedAtOnce(mismatch, refusal)
})

test('a server that was killed takes storeTimeoutMs for every call, and is used once it is back', async () => {
  await expectOneBound(redis(at(server)), [server])
})
