import { assertInTime } from '@locks/core/conformance'
import { redisGuard } from '@locks/redis'
import { Cluster } from 'ioredis'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import type { Server } from '../../../conformance/services/index.ts'
import { slotOf } from '../src/drivers/slots.ts'
import { bare, commandCounts, connect, queued, uniqueName, until } from './support/bed.ts'

const service = await startService('redis-cluster')
afterAll(() => service.close())
const [one, two] = [service.server('node-1'), service.server('node-2')]
const options = { cluster: { nodes: service.servers.map(({ host, port }) => ({ host, port })) }, prefix: '' }

async function idOf(server: Server): Promise<string> {
  return String(await redisCommand(server, 'CLUSTER', 'MYID'))
}

function nameWhere(is: (slot: number) => boolean): string {
  for (;;) {
    const name = uniqueName()
    if (is(slotOf(name))) return name
  }
}

/** A lock whose slot is the first node's, and no other test's. */
function nameOnFirst(): string {
  return nameWhere((slot) => slot < 5_000)
}

async function begin(slot: number): Promise<void> {
  await redisCommand(two, 'CLUSTER', 'SETSLOT', slot, 'IMPORTING', await idOf(one))
  await redisCommand(one, 'CLUSTER', 'SETSLOT', slot, 'MIGRATING', await idOf(two))
}

async function moveKeys(slot: number): Promise<void> {
  for (;;) {
    const keys = await redisCommand(one, 'CLUSTER', 'GETKEYSINSLOT', slot, 100)
    if (!Array.isArray(keys) || keys.length === 0) return
    await redisCommand(one, 'MIGRATE', two.host, two.port, '', 0, 5_000, 'KEYS', ...keys.map(String))
  }
}

async function finish(slot: number): Promise<void> {
  await moveKeys(slot)
  for (const node of [two, one, service.server('node-3')])
    await redisCommand(node, 'CLUSTER', 'SETSLOT', slot, 'NODE', await idOf(two))
}

test('a lease is renewed while its slot moves (ASK), and found at its new node afterwards (MOVED)', async () => {
  const [locks, others] = [connect(options), connect(options)]
  const lock = nameOnFirst()
  const lease = await locks.lock(lock).acquire()
  await begin(slotOf(lock))
  await lease.extend()
  await moveKeys(slotOf(lock))
  await lease.extend()
  await finish(slotOf(lock))
  await lease.extend()
  expect(await others.lock(lock).tryAcquire()).toBeNull()
  expect((await others.inspect(lock)).holder?.fence).toBe(lease.fence)
  await lease.release()
  const next = await others.lock(lock).acquire()
  expect(next.fence).toBeGreaterThan(lease.fence)
})

test('while a slot is half moved, each of its leases is renewed at its node, or lost alone', async () => {
  const { adapter, request, take } = bare(options)
  const tag = nameOnFirst()
  const [moved, left, freed] = [
    await take(request(`{${tag}}:moved`)),
    await take(request(`{${tag}}:left`)),
    await take(request(`{${tag}}:freed`)),
  ]
  const renew = () =>
    adapter.renew([moved, left, freed].map((grant) => ({ grant, ttlMs: 600_000, lockDelayMs: 0 })))
  await adapter.release(freed)
  await begin(slotOf(tag))
  await redisCommand(one, 'MIGRATE', two.host, two.port, moved.name, 0, 5_000)
  expect(await renew()).toEqual(['renewed', 'renewed', 'lost'])
  await finish(slotOf(tag))
  expect(await renew()).toEqual(['renewed', 'renewed', 'lost'])
  for (const { name } of [moved, left])
    expect(Number(await redisCommand(two, 'PTTL', name))).toBeGreaterThan(300_000)
})

test('while its slot moves a new lock is unavailable, not "held"; a waiter gets it afterwards', async () => {
  const [locks, others] = [connect(options), connect(options, { storeTimeoutMs: 20_000 })]
  const lock = nameOnFirst()
  await begin(slotOf(lock))
  // Redis serves several keys of a moving slot only where all of them are (TRYAGAIN).
  const turn = others.lock(lock).acquire({ waitMs: 20_000 })
  await expect(locks.lock(lock).tryAcquire()).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  await finish(slotOf(lock))
  await (await turn).release()
})

test('a waiter follows its slot to the new node, and is handed the lock long before a ttl ends', async () => {
  const [locks, others] = [connect(options, { ttlMs: 120_000 }), connect(options)]
  const lock = nameOnFirst()
  const lease = await locks.lock(lock).acquire()
  const turn = others.lock(lock).acquire({ waitMs: 60_000 })
  await queued(locks, lock)
  await begin(slotOf(lock))
  await finish(slotOf(lock))
  await until(async () => String(await redisCommand(two, 'PUBSUB', 'SHARDCHANNELS')).includes(lock))
  const start = performance.now()
  await lease.release()
  const next = await turn
  // Half a round trip, and not the ttl of two minutes nor a look every 30 s.
  await assertInTime('the grant', 15_000, performance.now() - start)
  expect(next.fence).toBeGreaterThan(lease.fence)
})

test('all keys of a lock are in one slot, for any name, and hand-off works there', async () => {
  const [locks, others] = [connect(options), connect(options)]
  for (const odd of ['plain', 'a{b}c', 'a{}c', '{', '}', 'a}b', 'a{b', 'locks:{x}', '{x}{y}', 'x{y}}']) {
    const lock = `${odd}:${uniqueName()}`
    const lease = await locks.lock(lock).acquire()
    const turn = others.lock(lock).acquire()
    await queued(locks, lock)
    await lease.release()
    const next = await turn
    expect(next.fence).toBeGreaterThan(lease.fence)
    await next.release()
  }
})

test('a withdrawal does not overtake its attempt on the way to another node', async () => {
  const locks = connect(options)
  const lock = nameOnFirst()
  const controller = new AbortController()
  const outcome = locks.lock(lock).acquire({ signal: controller.signal })
  controller.abort('given up')
  await expect(outcome).rejects.toBe('given up')
  // It waits for the attempt and for its withdrawal.
  await locks.close()
  expect(await redisCommand(one, 'EXISTS', lock)).toBe(0)
})

test('a client that starts while one primary hangs has the locks of the others', async () => {
  const settings = { 'cluster-require-full-coverage': 'no' }
  await using own = await startService('redis-cluster', { settings, needsControl: true })
  await own.server('node-3').pause()
  onTestFinished(() => own.server('node-3').resume())
  const locks = connect({
    cluster: { nodes: own.servers.map(({ host, port }) => ({ host, port })) },
    prefix: '',
  })
  const lock = nameOnFirst()
  await locks.with(lock, () => undefined)
})

test('a client whose first attempt goes to a primary that hangs has the locks of the others', async () => {
  const settings = { 'cluster-require-full-coverage': 'no' }
  await using own = await startService('redis-cluster', { settings, needsControl: true })
  await own.server('node-3').pause()
  onTestFinished(() => own.server('node-3').resume())
  const nodes = own.servers.map(({ host, port }) => ({ host, port }))
  const { adapter, request, take } = bare({ cluster: { nodes }, prefix: '' })
  const hung = adapter.attempt(request(nameWhere((slot) => slot > 12_000)))
  hung.catch(() => undefined)
  await take(request(nameOnFirst()))
})

test.each(['of its nodes', 'of those it starts from'])(
  'the errors of a guard do not show the password %s',
  async (where) => {
    const password = 'hunter2-and-more'
    const settings = { user: `locks on >${password} ~* &* +@all` }
    await using own = await startService('redis-cluster', { settings })
    const login = { username: 'locks', password }
    const addresses = own.servers.map(({ host, port }) => ({ host, port }))
    const client =
      where === 'of its nodes'
        ? new Cluster(addresses, { redisOptions: login })
        : new Cluster(addresses.map((address) => ({ ...address, ...login })))
    onTestFinished(() => client.disconnect())
    // What Redis did not find, it says.
    const failed = redisGuard(client, '{guard}').call(1n, ['XPENDING', '{guard}:stream', password])
    await expect(failed).rejects.toThrow(/NOGROUP.*consumer group '\*\*\*'/)
  },
)

test('a contended cycle is about two commands on a Cluster too', async () => {
  const clients = Array.from({ length: 4 }, () => connect(options))
  const lock = nameOnFirst()
  const cycles = (count: number) =>
    Promise.all(
      clients.map(async (locks) => {
        for (let n = 0; n < count; n += 1) await locks.with(lock, { waitMs: 30_000 }, () => undefined)
      }),
    )
  await cycles(2)
  const count = async () =>
    (await Promise.all(service.servers.map(commandCounts))).reduce((sum, { total }) => sum + total, 0)
  const before = await count()
  await cycles(100)
  const perCycle = ((await count()) - before) / 400
  console.log(`Cluster: ${perCycle.toFixed(3)} commands per contended cycle`)
  expect(perCycle).toBeLessThanOrEqual(2.2)
})

test('a thousand leases over all slots are renewed together', async () => {
  const ttlMs = 12_000
  const locks = connect(options, { ttlMs })
  const leases = await Promise.all(Array.from({ length: 1_000 }, () => locks.lock(uniqueName()).acquire()))
  const shortest = (): number => Math.min(...leases.map(({ remainingMs }) => remainingMs))
  await until(() => shortest() < ttlMs * 0.75)
  await until(() => shortest() > ttlMs * 0.8)
  for (const lease of leases) lease.assertHeld()
  await Promise.all(leases.map((lease) => lease.release()))
})
