import { redis } from '@locks/redis'
import { Cluster, Redis } from 'ioredis'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect, createServer as createTcpServer } from 'node:net'
import type { Server as TcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import {
  redisCommand,
  redisConversation,
  redisFields,
  startService,
} from '../../../conformance/services/index.ts'
import { expectOneBound, expectRefusedAtOnce } from '../../../conformance/test-support/refusals.ts'
import { wrap } from '../src/drivers/ioredis.ts'
import { failure } from '../src/errors.ts'
import { at, bare, connect as connectLocks, proxied, uniqueName, until } from './support/bed.ts'

const service = await startService('redis', { needsControl: true })
afterAll(() => service.close())
const server = service.server('redis')
const { host, port } = server

function portOf(front: TcpServer): number {
  const address = front.address()
  return typeof address === 'object' ? (address?.port ?? 0) : 0
}

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

test('a password that was fixed since does not explain a later outage', async () => {
  // An outage in which connections are accepted and closed, which ioredis has no error for.
  let isOut = false
  let relayed = 0
  const front = createTcpServer((client) => {
    client.on('error', () => undefined)
    if (isOut) return void client.resume().end()
    relayed += 1
    client.on('close', () => void (relayed -= 1))
    const behind = connect(port, host).on('error', () => undefined)
    client.pipe(behind).pipe(client)
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void front.close())
  await once(front, 'listening')
  await redisCommand(server, 'ACL', 'SETUSER', 'carol', 'on', '>right', '~*', '&*', '+@all')
  const connection = { host: '127.0.0.1', port: portOf(front), username: 'carol', password: 'new' }
  const lock = connectLocks({ connection }, { storeTimeoutMs: 30_000 }).lock(uniqueName())
  await expect(lock.tryAcquire()).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  await redisCommand(server, 'ACL', 'SETUSER', 'carol', '>new')
  const lease = await until(() => lock.tryAcquire().catch(() => false as const))
  await lease?.release()
  isOut = true
  await redisCommand(server, 'CLIENT', 'KILL', 'USER', 'carol')
  await until(() => relayed === 0)
  await expect(lock.tryAcquire({ retry: { attempts: 1 } })).rejects.toMatchObject({
    code: 'LOCK_UNAVAILABLE',
  })
  // What is withdrawn at the end reaches the server.
  isOut = false
})

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

test('a node of a Cluster that a client has used is an outage while another node has the slot', async () => {
  const cluster = await startService('redis-cluster')
  onTestFinished(() => cluster.close())
  const [first = server, second = server] = cluster.servers
  const here: string[] = []
  while (here.length < 2) {
    const name = uniqueName()
    if ((await redisCommand(first, 'GET', `locks:${name}`).catch(() => name)) === null) here.push(name)
  }
  const [used = '', moved = ''] = here
  const locks = connectLocks({ url: `redis://${first.host}:${first.port}` }, { storeTimeoutMs: 20_000 })
  await locks.with(used, () => undefined)
  const slot = Number(await redisCommand(first, 'CLUSTER', 'KEYSLOT', `locks:${moved}`))
  const assign = async (to: typeof first): Promise<unknown> =>
    redisCommand(first, 'CLUSTER', 'SETSLOT', slot, 'NODE', String(await redisCommand(to, 'CLUSTER', 'MYID')))
  const before = await movedAnswersOf(first)
  await assign(second)
  const outcome = locks
    .lock(moved)
    .acquire()
    .catch((error: unknown) => error)
  await until(async () => (await movedAnswersOf(first)) > before)
  await assign(first)
  expect(await outcome).toMatchObject({ state: 'held' })
})

/** How often the server has sent clients to another node. */
async function movedAnswersOf(node: typeof server): Promise<number> {
  const stats = await redisFields(node, 'INFO', 'errorstats')
  return Number(/count=(\d+)/.exec(stats.get('errorstat_MOVED') ?? '')?.[1] ?? 0)
}

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

test('a given client that gave up by itself is an outage, until the program connects it again', async () => {
  const proxy = await proxied(server)
  const client = new Redis({ host: proxy.host, port: proxy.port, retryStrategy: () => null })
  client.on('error', () => undefined)
  onTestFinished(() => client.disconnect())
  const lock = connectLocks({ client }, { storeTimeoutMs: 500 }).lock(uniqueName())
  await (await lock.acquire()).release()
  proxy.reset()
  await until(() => client.status === 'end')
  await expect(lock.tryAcquire()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  await client.connect()
  await (await lock.acquire()).release()
})

test('a given Cluster client is refused once the program ended it, not when it gave up by itself', async () => {
  const nodes = [{ host, port: 1 }]
  const client = new Cluster(nodes, { clusterRetryStrategy: () => null })
  client.on('error', () => undefined)
  await until(() => client.status === 'end')
  const lock = connectLocks({ client }, { storeTimeoutMs: 500 }).lock(uniqueName())
  await expect(lock.tryAcquire()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  const ended = new Cluster(nodes, { lazyConnect: true })
  ended.disconnect()
  await expectRefusedAtOnce(redis({ client: ended }), /was ended.*; give a client that is open/)
})

test.each([
  ['WRONGPASS', 'LOCK_INVALID_ARGUMENT'],
  ['CERT_HAS_EXPIRED', 'LOCK_UNAVAILABLE'],
])('what the last node of a Cluster said is final only if all nodes are likely to: %s', (said, code) => {
  const last = Object.assign(new Error('refused'), { code: said })
  const client = new Cluster([{ host, port }], { lazyConnect: true })
  const error = Object.assign(new Error('Failed to refresh slots cache.'), { lastNodeError: last })
  expect(failure(error, wrap(client))).toMatchObject({ code })
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
  const its = portOf(front)
  const refusal = /certificate of the server is not trusted.*; give/
  await expectRefusedAtOnce(redis({ url: `rediss://127.0.0.1:${its}` }), refusal)
  const mismatch = redis({ connection: { host: '127.0.0.1', port: its, tls: { ca: cert } } })
  await expectRefusedAtOnce(mismatch, refusal)
  // Other nodes of a Cluster may be in order.
  const cluster = { nodes: [{ host: '127.0.0.1', port: its }], options: { redisOptions: { tls: {} } } }
  const lock = connectLocks({ cluster }, { storeTimeoutMs: 500 }).lock(uniqueName())
  await expect(lock.tryAcquire()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
})

test('a server that was killed takes storeTimeoutMs for every call, and is used once it is back', async () => {
  await expectOneBound(redis(at(server)), [server])
})
