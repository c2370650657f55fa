import { Redis } from 'ioredis'
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { eventually } from '@locks/core/conformance'
import { afterAll, expect, onTestFinished, test, vi } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { expectBrokenHoldLost } from '../../../conformance/test-support/broken-holds.ts'
import { at, bare, connect, exists, proxied, queued, uniqueName } from './support/bed.ts'

const service = await startService('redis')
afterAll(() => service.close())
const server = service.server('redis')

async function levels(options: Parameters<typeof connect>[0]): Promise<Map<string, string>> {
  const findings = await connect(options).diagnose()
  return new Map(findings.map(({ check, level }) => [check, level]))
}

test('list names what is held under its own prefix, odd names too, and no more than asked for', async () => {
  const prefix = `${uniqueName('prefix')}:`
  const [locks, others] = [connect({ ...at(server), prefix }), connect(at(server))]
  const names = ['plain', '{braced}', 'a{b}c', 'a{', '}', '*?[x]', 'ünïcode 名']
  for (const name of names) await locks.lock(name).acquire()
  await (await locks.lock('freed').acquire()).release()
  const elsewhere = await others.lock(uniqueName()).acquire()
  const held = await locks.list({ limit: 100 })
  expect(held.map(({ name }) => name).toSorted()).toEqual(names.toSorted())
  expect(held.every(({ holder }) => holder?.metadata?.pid === process.pid)).toBe(true)
  expect(await locks.list({ limit: 3 })).toHaveLength(3)
  const all = (await others.list({ limit: 10_000 })).map(({ name }) => name)
  expect(all).toContain(elsewhere.name)
  expect(all).toContain(`${prefix}plain`)
})

test("list finds a lock that only Redisson's plain RLock ever used, and takes no other hash for one", async () => {
  const prefix = `${uniqueName('prefix')}:`
  const java = `${randomUUID()}:37`
  const hashes = [
    ['java', java, 1],
    ['user', 'name', 'somebody', 'hold', '1;;x'],
    ['user:2', java, 1, ...Array.from({ length: 20 }, (_, n) => `field ${n}`)],
  ] as const
  for (const [key, ...fields] of hashes) await redisCommand(server, 'HSET', prefix + key, ...fields)
  await redisCommand(server, 'PEXPIRE', `${prefix}java`, 60_000)
  const held = await connect({ ...at(server), prefix }).list()
  expect(held).toMatchObject([{ name: 'java', held: true, holder: { owner: java } }])
})

test('list passes over hashes that its user may not read', async () => {
  const settings = { user: 'locks on >secret ~mine:* ~redisson_lock_token:* ~locks_queue:* &* +@all' }
  await using guarded = await startService('redis', { settings })
  const { host, port } = guarded.server('redis')
  await redisCommand({ host, port }, 'HSET', 'yours', `${randomUUID()}:1`, 1)
  const locks = connect({ connection: { host, port, username: 'locks', password: 'secret' }, prefix: '' })
  await locks.lock('mine:a').acquire()
  expect((await locks.list()).map(({ name }) => name)).toEqual(['mine:a'])
})

test('on a Cluster, list asks every primary, and finds names that are encoded there', async () => {
  await using cluster = await startService('redis-cluster')
  const nodes = cluster.servers.map(({ host, port }) => ({ host, port }))
  const [locks, operator] = [connect({ cluster: { nodes } }), connect({ cluster: { nodes } })]
  const names = [
    '{',
    'a}b',
    'locks:{x}',
    'locks_name:{x}',
    '{x}{y}',
    ...Array.from({ length: 20 }, () => uniqueName()),
  ]
  for (const name of names) await locks.lock(name).acquire()
  const held = await operator.list({ limit: 100 })
  expect(held.map(({ name }) => name).toSorted()).toEqual(names.toSorted())
  expect((await operator.diagnose()).map(({ check }) => check)).toContain('persistence')
})

test('a hold of Redisson is identified by its field: only that one is broken, Java waiters are notified', async () => {
  const { adapter } = bare(at(server))
  const lock = uniqueName()
  await redisCommand(server, 'HSET', lock, '4d0f3c1e-7a52-4b6e-9d21-5c8e0b7f9a13:1', 1)
  await redisCommand(server, 'PEXPIRE', lock, 60_000)
  const java = new Redis({ host: server.host, port: server.port })
  onTestFinished(() => java.disconnect())
  const told = new Promise((resolve) => java.on('message', (_channel, text) => resolve(text)))
  await java.subscribe(`redisson_lock__channel:{${lock}}`)
  const { holder } = await adapter.inspect(lock)
  expect(holder).toEqual({ owner: '4d0f3c1e-7a52-4b6e-9d21-5c8e0b7f9a13:1' })
  expect(await adapter.break?.(lock, { owner: '4d0f3c1e-7a52-4b6e-9d21-5c8e0b7f9a13:2' })).toBe('not-held')
  expect(await adapter.break?.(lock, { owner: '4d0f3c1e-7a52-4b6e-9d21-5c8e0b7f9a13:1', fence: 1n })).toBe(
    'not-held',
  )
  expect(await adapter.break?.(lock, { owner: '4d0f3c1e-7a52-4b6e-9d21-5c8e0b7f9a13:1' })).toBe('broken')
  expect(await told).toBe('0')
  expect(await exists(server, lock)).toBe(false)
  expect(await adapter.break?.(lock, { owner: '4d0f3c1e-7a52-4b6e-9d21-5c8e0b7f9a13:1' })).toBe('not-held')
})

test('a hold of ours cannot be broken without its fence', async () => {
  const { adapter, request, take } = bare(at(server))
  const lock = uniqueName()
  const { attemptId, fence } = await take(request(lock))
  expect(await adapter.break?.(lock, { owner: attemptId })).toBe('not-held')
  expect(await adapter.break?.(lock, { owner: 'any', fence })).toBe('broken')
})

test('a broken hold of Redisson goes to the next waiter here, at once', async () => {
  const [waiter, operator] = [connect(at(server)), connect(at(server))]
  const lock = uniqueName()
  await redisCommand(server, 'HSET', lock, '4d0f3c1e-7a52-4b6e-9d21-5c8e0b7f9a13:1', 1)
  await redisCommand(server, 'PEXPIRE', lock, 600_000)
  const turn = waiter.lock(lock).acquire({ waitMs: 60_000 })
  await queued(operator, lock)
  await operator.lock(lock).break()
  expect((await turn).fence).toBeGreaterThan(0n)
})

test('diagnose reports what a server without persistence and with eviction means for locks', async () => {
  await redisCommand(server, 'CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru')
  onTestFinished(async () => {
    await redisCommand(server, 'CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
  })
  const found = await levels({ ...at(server), serverSettings: 'ignore' })
  expect(found.get('eviction-policy')).toBe('danger')
  expect(found.get('persistence')).toBe('danger')
  expect(found.get('replication')).toBe('ok')
  expect(found.get('version')).toBe('ok')
  expect(found.get('clock')).toBe('ok')
  expect(found.has('round-trip')).toBe(true)
  const alone = await levels({ ...at(server), serverSettings: 'ignore', waitForReplicas: 1 })
  expect(alone.get('replication')).toBe('warning')
})

test.each([
  ['behind', 20_000],
  ['ahead of', -20_000],
])('diagnose warns of a server whose clock is %s the clock of this machine', async (which, shiftMs) => {
  const locks = connect({ ...at(server), serverSettings: 'ignore' })
  await locks.diagnose()
  const now = Date.now.bind(Date)
  const shifted = vi.spyOn(Date, 'now').mockImplementation(() => now() + shiftMs)
  onTestFinished(() => shifted.mockRestore())
  const finding = (await locks.diagnose()).find(({ check }) => check === 'clock')
  expect(finding?.level).toBe('warning')
  const offMs = new RegExp(`^the server's clock is (\\d+) ms ${which} this machine's, give or take \\d+$`)
  const [, offset] = offMs.exec(finding?.message ?? '') ?? []
  expect(Math.abs(Number(offset) - 20_000)).toBeLessThan(5_000)
  expect(finding?.advice).toContain('a step back keeps the lock of a crashed holder')
})

test('diagnose finds nothing wrong with persistence where every grant is on disk', async () => {
  const settings = { appendonly: 'yes', appendfsync: 'always' }
  await using durable = await startService('redis', { settings })
  expect((await levels(at(durable.server('redis')))).get('persistence')).toBe('ok')
})

test('diagnose reports replicas that a grant does not wait for', async () => {
  await using sentinels = await startService('redis-sentinel')
  const primary = sentinels.server('primary')
  expect((await levels(at(primary))).get('replication')).toBe('danger')
  expect((await levels({ ...at(primary), waitForReplicas: 1 })).get('replication')).toBe('ok')
  await redisCommand(primary, 'CONFIG', 'SET', 'min-replicas-to-write', 1)
  expect((await levels(at(primary))).get('replication')).toBe('warning')
})

test('settings that a user may not read are findings; an outage is not', async () => {
  const settings = { user: 'locks on >secret ~* &* +@all -config -info' }
  await using guarded = await startService('redis', { settings })
  const { host, port } = guarded.server('redis')
  const login = { username: 'locks', password: 'secret' }
  const found = await levels({ connection: { host, port, ...login }, serverSettings: 'ignore' })
  expect(found.get('config')).toBe('warning')
  expect(found.get('info')).toBe('warning')
  expect(found.has('persistence')).toBe(false)
  await guarded.close()
  const gone = connect({ connection: { host, port } })
  await expect(gone.diagnose()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
})

test('a lease that was handed off and serialised at once lasts for its whole ttl, not for the claim', async () => {
  const [holder, other] = [connect(at(server)), connect({ ...at(server), claimTtlMs: 1_000 })]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire()
  const turn = other.lock(lock).acquire({ ttlMs: 120_000, waitMs: 60_000 })
  await queued(holder, lock)
  await lease.release()
  const text = (await turn).serialize()
  const isWhole = async (): Promise<boolean> => ((await holder.inspect(lock)).remainingMs ?? 0) > 60_000
  await eventually('the whole ttl', { ms: 1_000, from: 'claimTtlMs' }, isWhole)
  await (await holder.resume(text)).release()
})

test('a broken hold ends as lost, also when its lock was taken and released by another meanwhile', async () => {
  await expectBrokenHoldLost(connect(at(server)), connect(at(server)), uniqueName())
})

test('a release that is sent twice by the client after a lost reply is asked for again, and succeeds', async () => {
  const proxy = await proxied(server)
  const { adapter, request, take } = bare(at(proxy))
  const grant = await take(request(uniqueName()))
  await adapter.release(await take(request(uniqueName())))
  const swallowed = proxy.swallowNextReply()
  await expect(adapter.release(grant)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  await swallowed
  expect(await adapter.release(grant)).toBe('not-held')
  const locks = connect(at(proxy))
  const lease = await locks.lock(uniqueName()).acquire()
  const again = proxy.swallowNextReply()
  await lease.release()
  await again
})

test('a user with exactly the rights of the README can do everything', async () => {
  const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8')
  const rights = /A user with an ACL needs[^]*/.exec(readme)?.[0] ?? ''
  const words = [...rights.matchAll(/`([^`]+)`/g)].map(([, word = '']) => word)
  const keys = words
    .filter((word) => /^[a-z_]+:\*$/.test(word) && !word.includes('channel'))
    .map((key) => `~${key}`)
  const channels = words.filter((word) => /channel|grants/.test(word)).map((channel) => `&${channel}`)
  const commands = words
    .filter((word) => /^[A-Z]+(\|[A-Z]+)?$/.test(word))
    .map((word) => `+${word.toLowerCase()}`)
  const settings = { user: ['locks on >secret', ...keys, ...channels, '-@all', ...commands].join(' ') }
  await using guarded = await startService('redis', { settings })
  const { host, port } = guarded.server('redis')
  const connection = { host, port, username: 'locks', password: 'secret' }
  const [holder, waiter] = [connect({ connection }), connect({ connection })]
  const lease = await holder.lock('a').acquire()
  const leaving = waiter.lock('a').acquire({ waitMs: 60_000, retry: { attempts: 2 } })
  await expect(leaving).rejects.toMatchObject({ code: 'LOCK_TIMEOUT' })
  const turn = waiter.lock('a').acquire({ waitMs: 60_000 })
  await queued(holder, 'a')
  await lease.extend()
  await lease.release()
  const next = await holder.resume((await turn).serialize())
  expect((await holder.list()).map(({ name }) => name)).toEqual(['a'])
  expect(await holder.lock('a').break()).toMatchObject({ fence: next.fence })
  await redisCommand(guarded.server('redis'), 'SET', 'locks:b', 'precious')
  await expect(holder.inspect('b')).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  const found = (await holder.diagnose()).map(({ check }) => check)
  expect(found).toContain('persistence')
  expect(found).not.toContain('config')
})
