import { redisGuard } from '@locks/redis'
import { Cluster, Redis } from 'ioredis'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { redisCommand, sentinelPrimaryName, startService } from '../../../conformance/services/index.ts'
import { expectNoLeak, listenersOf } from '../../../conformance/test-support/listeners.ts'
import { connect, hungServer, proxied, queued, uniqueName, until } from './support/bed.ts'

const service = await startService('redis')
afterAll(() => service.close())
const server = service.server('redis')

/** What must not change about a client of the user's. */
function stateOf(client: Redis | Cluster): object {
  return { status: client.status, options: { ...client.options }, listeners: listenersOf(client) }
}

async function useBoth(client: Redis | Cluster, prefix = ''): Promise<string> {
  await client.set('user', 'data')
  const before = stateOf(client)
  const [locks, others] = [connect({ client, prefix }), connect({ client, prefix })]
  const lock = uniqueName()
  const lease = await locks.lock(lock).acquire()
  const turn = others.lock(lock).acquire()
  await queued(locks, lock)
  await lease.release()
  const next = await turn
  expect(next.fence).toBeGreaterThan(lease.fence)
  await locks.close()
  expect(await client.get('user')).toBe('data')
  await next.release()
  await others.close()
  expect(stateOf(client)).toEqual(before)
  expect(await client.get('user')).toBe('data')
  return lock
}

test("with a client's db and key prefix, locks use both, in Redisson's layout, and the client is left alone", async () => {
  const client = new Redis({ host: server.host, port: server.port, db: 3, keyPrefix: 'app:' })
  onTestFinished(() => client.disconnect())
  const lock = await useBoth(client, 'locks:')
  const raw = new Redis({ host: server.host, port: server.port, db: 3 })
  onTestFinished(() => raw.disconnect())
  expect(await raw.keys('*')).toContain(`redisson_lock_token:{app:locks:${lock}}`)
  expect(await raw.get('app:user')).toBe('data')
  expect(await redisCommand(server, 'DBSIZE')).toBe(0)
})

test('a guard leaves a key alone that holds no fence, and returns whatever its command does', async () => {
  const client = new Redis({ host: server.host, port: server.port })
  onTestFinished(() => client.disconnect())
  const key = uniqueName('guard')
  await client.set(key, 'precious')
  await expect(redisGuard(client, key).register(1n)).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  expect(await client.get(key)).toBe('precious')
  await client.del(key)
  expect(await redisGuard(client, key).call(1n, ['DECR', `${key}:value`])).toBe(-1)
})

test('a guard puts the key prefix of its client in front of keys, its own and those of commands', async () => {
  const client = new Redis({ host: server.host, port: server.port, keyPrefix: 'app:' })
  onTestFinished(() => client.disconnect())
  const guard = redisGuard(client, 'guard')
  await guard.call(7n, ['MSET', 'one', 'one', 'two', 'one'])
  expect(await client.mget('one', 'two')).toEqual(['one', 'one'])
  await expect(guard.call(6n, ['DEL', 'one'])).rejects.toMatchObject({ code: 'LOCK_LOST' })
  expect(await redisCommand(server, 'MGET', 'app:guard', 'app:one')).toEqual(['7', 'one'])
})

test("the user's connection is never sent SELECT", async () => {
  const client = new Redis({ host: server.host, port: server.port, db: 5 })
  onTestFinished(() => client.disconnect())
  await client.ping()
  await client.select(7)
  await useBoth(client)
  expect(await client.client('INFO')).toContain(' db=7 ')
})

test('a client that repeats no command takes locks after its first reply was lost', async () => {
  const proxy = await proxied(server)
  const address = { host: proxy.host, port: proxy.port }
  const client = new Redis({ ...address, autoResendUnfulfilledCommands: false })
  client.on('error', () => undefined)
  onTestFinished(() => client.disconnect())
  await client.ping()
  const locks = connect({ client }, { storeTimeoutMs: 500 })
  const swallowed = proxy.swallowNextReply()
  const first = expect(locks.lock(uniqueName()).tryAcquire()).rejects.toMatchObject({
    code: 'LOCK_UNAVAILABLE',
  })
  await swallowed
  await first
  await client.ping()
  expect(await locks.lock(uniqueName()).tryAcquire()).not.toBeNull()
})

test('a client with timeouts, RESP2 and automatic pipelining', async () => {
  const address = { host: server.host, port: server.port }
  const client = new Redis({ ...address, protocol: 2, enableAutoPipelining: true, commandTimeout: 5_000 })
  onTestFinished(() => client.disconnect())
  await useBoth(client)
})

test('a dozen lock clients on one Redis client cause no listener-leak warning', async () => {
  const client = new Redis({ host: server.host, port: server.port })
  onTestFinished(() => client.disconnect())
  await client.ping()
  const before = stateOf(client)
  await expectNoLeak([client], () => connect({ client }))
  expect(stateOf(client)).toEqual(before)
})

test('a client that returns numbers as strings', async () => {
  const client = new Redis({ host: server.host, port: server.port, stringNumbers: true })
  onTestFinished(() => client.disconnect())
  await useBoth(client)
  const [holder, operator] = [connect({ client }), connect({ client })]
  const lease = await holder.lock(uniqueName()).acquire()
  await lease.extend()
  expect(await operator.lock(lease.name).break()).toMatchObject({ fence: lease.fence })
  await expect(lease.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' })
})

test('a client that was closed is refused', async () => {
  const client = new Redis({ host: server.host, port: server.port })
  const locks = connect({ client })
  await client.quit()
  await expect(locks.lock(uniqueName()).tryAcquire()).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
})

test('a client behind Sentinels', async () => {
  await using sentinels = await startService('redis-sentinel')
  const addresses = sentinels.servers.filter(({ name }) => name.startsWith('sentinel'))
  const client = new Redis({
    sentinels: addresses.map(({ host, port }) => ({ host, port })),
    name: sentinelPrimaryName,
    keyPrefix: 'app:',
  })
  onTestFinished(() => client.disconnect())
  const lock = await useBoth(client)
  const token = `redisson_lock_token:{app:${lock}}`
  expect(await redisCommand(sentinels.server('primary'), 'EXISTS', token)).toBe(1)
})

test('a client whose first Sentinel hangs while a waiter waits', async () => {
  await using sentinels = await startService('redis-sentinel')
  const addresses = sentinels.servers.filter(({ name }) => name.startsWith('sentinel'))
  const [first = sentinels.server('primary'), ...others] = addresses.map(({ host, port }) => ({ host, port }))
  const proxy = await proxied(first)
  const client = new Redis({
    sentinels: [{ host: proxy.host, port: proxy.port }, ...others],
    name: sentinelPrimaryName,
  })
  onTestFinished(() => client.disconnect())
  await client.ping()
  proxy.retarget(await hungServer())
  await useBoth(client)
})

test.each([
  ['', { keyPrefix: 'app:' }],
  [' of its nodes', { redisOptions: { keyPrefix: 'app:' } }],
])('a Cluster client, with a key prefix%s', async (_whose, options) => {
  await using nodes = await startService('redis-cluster')
  const client = new Cluster(
    nodes.servers.map(({ host, port }) => ({ host, port })),
    options,
  )
  onTestFinished(() => client.disconnect())
  await until(() => client.status === 'ready')
  const lock = await useBoth(client)
  const token = `redisson_lock_token:{app:${lock}}`
  const found = nodes.servers.map((node) => redisCommand(node, 'EXISTS', token).catch(() => 0))
  expect((await Promise.all(found)).filter((count) => count === 1)).toHaveLength(1)
})
