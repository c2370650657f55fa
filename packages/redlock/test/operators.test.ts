import type { Finding } from '@locks/core'
import { Cluster, Redis } from 'ioredis'
import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { expectBrokenHoldLost } from '../../../conformance/test-support/broken-holds.ts'
import { expectNoLeak } from '../../../conformance/test-support/listeners.ts'
import { bare, connect, heldOn, over, proxiesOf, servers, uniqueName, until } from './support/bed.ts'

function level(findings: readonly Finding[], check: string): string | undefined {
  return findings.find((finding) => finding.check === check)?.level
}

/** The holder field of one RedissonRedLock on a node: to each node it is another client. */
const javaOn = (node: number): string => `4d0f3c1e-7a52-4b6e-9d21-5c8e0b7f9a1${node}:42`

test('with three of five nodes a broken hold is broken, and with two it is an outage', async () => {
  const { servers: nodes } = await servers(5, { appendonly: 'yes', appendfsync: 'always' })
  const [holder, operator] = [connect(over(nodes)), bare(over(nodes, { nodeTimeoutMs: 10_000 }))]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire()
  await until(async () => (await heldOn(nodes, lock)) === 5)
  const { holder: found } = await operator.adapter.inspect(lock)
  expect(found?.fence).toBe(lease.fence)
  await Promise.all(nodes.slice(0, 3).map((node) => node.stop()))
  const broken = found && operator.adapter.break?.(lock, found)
  await expect(broken).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  await nodes[0]?.start()
  const again = (): Promise<unknown> | undefined => found && operator.adapter.break?.(lock, found)
  await until(async () => (await again()?.catch(() => undefined)) !== undefined)
  await until(async () => (await heldOn(nodes.slice(3), lock)) === 0)
})

test('without fences a hold is identified by its owner', async () => {
  const { servers: nodes } = await servers(3)
  const locks = connect(over(nodes, { fencing: false }))
  const { adapter } = bare(over(nodes, { fencing: false }))
  const lock = uniqueName()
  const first = await locks.lock(lock).acquire({ owner: 'the first' })
  const { holder } = await adapter.inspect(lock)
  expect(holder).toMatchObject({ owner: 'the first' })
  expect(holder).not.toHaveProperty('fence')
  await first.release()
  await locks.lock(lock).acquire({ owner: 'the second' })
  expect(holder && (await adapter.break?.(lock, holder))).toBe('not-held')
  expect((await locks.lock(lock).break())?.owner).toBe('the second')
  expect(await locks.inspect(lock)).toMatchObject({ held: false })
})

test('RedissonRedLock is broken whichever nodes describe it first, and not while its node is silent', async () => {
  const { servers: nodes } = await servers(3)
  const lock = uniqueName()
  const proxies = await proxiesOf(nodes)
  const { adapter } = bare(over(proxies, { nodeTimeoutMs: 3_000 }))
  const breakAs = (owner: string): Promise<unknown> | undefined => adapter.break?.(lock, { owner })
  const hold = async (): Promise<void> => {
    for (const [index, node] of nodes.entries()) {
      await redisCommand(node, 'HSET', lock, javaOn(index), 1)
      await redisCommand(node, 'PEXPIRE', lock, 120_000)
    }
  }
  await hold()
  proxies[0]?.delay(100)
  expect(await breakAs(javaOn(0))).toBe('broken')
  await until(async () => (await heldOn(nodes, lock)) === 0)

  await hold()
  await nodes[0]?.stop()
  // The remaining two cannot know whether the silent one still has the same holder.
  await expect(breakAs(javaOn(0))).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  expect(await breakAs(javaOn(1))).toBe('broken')
  expect(await heldOn(nodes.slice(1), lock)).toBe(0)
})

test('list has what a majority holds, also with a node down, and not the vote of a minority', async () => {
  const { servers: nodes } = await servers(3)
  const [locks, operator] = [
    connect(over(nodes, { prefix: 'app:' })),
    connect(over(nodes, { prefix: 'app:' })),
  ]
  const [held, halved] = [uniqueName(), uniqueName()]
  for (const lock of [held, halved]) {
    await locks.lock(lock).acquire({ owner: lock })
    await until(async () => (await heldOn(nodes, `app:${lock}`)) === 3)
  }
  for (const node of nodes.slice(1)) await redisCommand(node, 'DEL', `app:${halved}`)
  const owners = async (): Promise<unknown[]> => (await operator.list()).map(({ holder }) => holder?.owner)
  expect(await owners()).toEqual([held])
  await nodes[0]?.stop()
  expect(await owners()).toEqual([held])
})

test('diagnose names the node and what to do about it', async () => {
  const { servers: nodes } = await servers(4, { appendonly: 'yes', appendfsync: 'always' })
  const [, second, third, fourth] = nodes
  const locks = connect(over(nodes, { nodeTimeoutMs: 10_000 }))
  const before = await locks.diagnose()
  expect(level(before, 'node-count')).toBe('warning')
  for (const check of [
    'nodes-reachable',
    'independent-servers',
    'eviction-policy',
    'persistence',
    'clock',
    'version',
  ])
    expect(`${check} ${level(before, check)}`).toBe(`${check} ok`)
  if (second !== undefined) await redisCommand(second, 'CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru')
  if (third !== undefined) await redisCommand(third, 'CONFIG', 'SET', 'appendfsync', 'everysec')
  await fourth?.stop()
  const after = await locks.diagnose()
  const [eviction, persistence, reach] = ['eviction-policy', 'persistence', 'nodes-reachable'].map((check) =>
    after.find((finding) => finding.check === check),
  )
  expect(eviction).toMatchObject({ level: 'danger' })
  expect(eviction?.message).toMatch(/^node 2: /)
  expect(persistence).toMatchObject({ level: 'warning' })
  expect(persistence?.message).toMatch(/^node 3: /)
  expect(persistence?.advice).toMatch(/longer than the longest ttl/)
  expect(reach).toMatchObject({ level: 'warning' })
  expect(reach?.message).toMatch(/node 4: @locks\/redis: Redis failed/)
  await Promise.all([second?.stop(), third?.stop()])
  const worst = (await locks.diagnose()).find(({ check }) => check === 'nodes-reachable')
  expect(worst?.message).toMatch(/no lock can be acquired: 3 of 4/)
})

test('diagnose finds one server that votes under several addresses', async () => {
  const { servers: nodes } = await servers(3)
  const [first, second] = nodes.map(({ host, port }) => ({ connection: { host, port } }))
  const again = { connection: { ...first?.connection, db: 1 } }
  const locks = connect({ nodes: [first ?? again, second ?? again, again] })
  const found = (await locks.diagnose()).find(({ check }) => check === 'independent-servers')
  expect(found).toMatchObject({ level: 'danger' })
  expect(found?.message).toMatch(/^nodes 1, 3 /)
})

test('diagnose does not call servers different that it cannot compare', async () => {
  const { servers: nodes } = await servers(2)
  const [one, other] = nodes
  if (one === undefined || other === undefined) throw new Error('two servers expected')
  const rights = ['on', '>p', '~*', '&*', '+@all', '-info']
  await redisCommand(one, 'ACL', 'SETUSER', 'narrow', ...rights)
  const [url, alias] = ['127.0.0.1', 'localhost'].map((host) => `redis://narrow:p@${host}:${one.port}`)
  const locks = connect({ nodes: [url ?? '', alias ?? '', other.url] })
  const found = (await locks.diagnose()).find(({ check }) => check === 'independent-servers')
  expect(found).toMatchObject({ level: 'warning' })
  expect(found?.message).toMatch(/^node 1, 2 does not say which server it is/)
})

test('a server that is named twice is refused: its vote would count twice', () => {
  const name = randomUUID()
  const twice = [`redis://${name}`, `redis://${name}`, 'redis://other']
  expect(() => bare({ nodes: twice })).toThrow(/named twice/)
  const connection = { host: name, port: 1 }
  expect(() => bare({ nodes: [{ connection }, { connection: { ...connection } }] })).toThrow(/named twice/)
  expect(() => bare({ nodes: [{ url: 'redis://a', waitForReplicas: 1 }] })).toThrow(/waitForReplicas/)
})

test("the user's clients keep the listeners they had, and a dozen sets of locks do not look like a leak", async () => {
  const { servers: nodes } = await servers(2)
  await using cluster = await startService('redis-cluster')
  const clients = [
    ...nodes.map(({ host, port }) => new Redis({ host, port })),
    new Cluster(cluster.servers.map(({ host, port }) => ({ host, port }))),
  ]
  onTestFinished(() => clients.forEach((client) => client.disconnect()))
  for (const client of clients) await client.ping()
  await expectNoLeak(clients, () => connect({ nodes: clients.map((client) => ({ client })) }))
})

test('a broken hold ends as lost, also when its lock was taken and released by another meanwhile', async () => {
  const { servers: nodes } = await servers(3)
  await expectBrokenHoldLost(connect(over(nodes)), connect(over(nodes)), uniqueName())
})

test('a hold on a bare majority is released, although the others never had it', async () => {
  const { servers: nodes } = await servers(3)
  const [locks, lock] = [connect(over(nodes)), uniqueName()]
  await nodes[2]?.pause()
  const lease = await locks.lock(lock).acquire()
  await nodes[2]?.resume()
  await lease.release()
  const again = await locks.lock(lock).acquire()
  for (const node of nodes.slice(2)) await redisCommand(node, 'DEL', lock)
  await again.release()
})

test('a foreign key on a majority of nodes fails at once, and stays; on a minority it does not matter', async () => {
  const { servers: nodes } = await servers(3)
  const [locks, lock] = [connect(over(nodes)), uniqueName()]
  const [first, second] = nodes
  if (first === undefined || second === undefined) throw new Error('too few nodes')
  await redisCommand(first, 'SET', lock, 'precious')
  await locks.with(lock, () => undefined)
  await redisCommand(second, 'HSET', lock, 'name', 'bob')
  const message: unknown = expect.stringContaining(JSON.stringify(lock))
  const failure = { code: 'LOCK_INVALID_ARGUMENT', message }
  await expect(locks.lock(lock).tryAcquire()).rejects.toMatchObject(failure)
  await expect(locks.lock(lock).acquire({ waitMs: 60_000 })).rejects.toMatchObject(failure)
  await expect(locks.inspect(lock)).rejects.toMatchObject(failure)
  await expect(locks.lock(lock).break()).rejects.toMatchObject(failure)
  // The third alone has a lock there.
  const other = await locks.lock(uniqueName()).acquire()
  await redisCommand(nodes[2] ?? first, 'HSET', lock, javaOn(2), 1)
  await redisCommand(nodes[2] ?? first, 'PEXPIRE', lock, 600_000)
  expect((await locks.list()).map(({ name }) => name)).toEqual([other.name])
  expect(await redisCommand(first, 'GET', lock)).toBe('precious')
  expect(await redisCommand(second, 'HGETALL', lock)).toEqual(['name', 'bob'])
})

test('without a prefix given, nodes have that of @locks/redis; an empty one shares names with Redisson', async () => {
  const { servers: nodes } = await servers(3)
  const [node] = nodes
  if (node === undefined) throw new Error('no nodes')
  const url = `redlock://${nodes.map(({ host, port }) => `${host}:${port}`).join(',')}`
  const lock = uniqueName()
  for (const [options, key] of [
    [{ url }, `locks:${lock}`],
    [{ url: `${url}?prefix=` }, lock],
    [over(nodes), lock],
    [over(nodes, { prefix: 'app:' }), `app:${lock}`],
  ] as const) {
    const lease = await connect(options).lock(lock).acquire()
    await until(async () => (await redisCommand(node, 'EXISTS', key)) === 1)
    await lease.release()
  }
})
