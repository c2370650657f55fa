import { inTime, isVoidRun } from '@locks/core/conformance'
import { createHash } from 'node:crypto'
import { Redis } from 'ioredis'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import type { Edit } from '../../../conformance/mutants/mutant.ts'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { at, bare, enqueue, proxied, uniqueName, until } from './support/bed.ts'
import { mutate } from './support/mutate.ts'
import type { Factory } from './support/mutate.ts'

// Deliberate bugs in the checks of keys and messages, as edits of the built adapter: each must be noticed.

const service = await startService('redis')
afterAll(() => service.close())
const server = service.server('redis')

async function forgedGrant(factory: Factory): Promise<void> {
  const lock = uniqueName()
  const holder = bare(at(server))
  const { fence } = await holder.take(holder.request(lock))
  const { adapter: waiter, wanted } = await enqueue(at(server), lock, factory)
  const turn = waiter.wait?.(wanted, 60_000, new AbortController().signal)
  const [client = ''] = wanted.attemptId.split(':')
  const forged = `${wanted.attemptId} ${fence + 1n} ${Date.now()}000 3600000 ${lock} ${'0'.repeat(40)}`
  await redisCommand(server, 'PUBLISH', `locks_grants:${client}`, forged)
  expect(await turn).toBeUndefined()
}

async function bookkeepingName(factory: Factory): Promise<void> {
  const { adapter: locks, request, take } = bare(at(server), {}, factory)
  const grant = await take(request(uniqueName()))
  expect(await locks.release({ ...grant, attemptId: 'hold' })).toBe('not-held')
  expect(await locks.release(grant)).toBe('released')
}

async function foreignHash(factory: Factory): Promise<void> {
  const { adapter: locks, request } = bare(at(server), {}, factory)
  const name = uniqueName()
  await redisCommand(server, 'HSET', name, 'name', 'bob', 'email', 'b@x')
  await expect(locks.attempt(request(name))).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  await expect(locks.inspect(name)).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
}

async function foreignHolder(factory: Factory): Promise<void> {
  const { adapter: locks } = bare(at(server), {}, factory)
  const [name, owner] = [uniqueName(), '4d0f3c1e-7a52-4b6e-9d21-5c8e0b7f9a13:1']
  await redisCommand(server, 'HSET', name, owner, '5')
  await expect(locks.break?.(name, { owner })).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  expect(await redisCommand(server, 'HGET', name, owner)).toBe('5')
}

async function foreignCounter(factory: Factory): Promise<void> {
  const { adapter: locks, request } = bare(at(server), {}, factory)
  const name = uniqueName()
  const token = `redisson_lock_token:{${name}}`
  await redisCommand(server, 'SET', token, 'precious')
  await expect(locks.attempt(request(name))).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  expect(await redisCommand(server, 'GET', token)).toBe('precious')
}

async function highFence(factory: Factory): Promise<void> {
  const { adapter: locks, request } = bare(at(server), {}, factory)
  const name = uniqueName()
  await redisCommand(server, 'SET', `redisson_lock_token:{${name}}`, String(2n ** 53n))
  await expect(locks.attempt(request(name))).rejects.toMatchObject({ code: 'LOCK_UNSUPPORTED' })
}

async function releaseOfFree(factory: Factory): Promise<void> {
  const { adapter: locks, request, take } = bare(at(server), {}, factory)
  const grant = await take(request(uniqueName()))
  await redisCommand(server, 'DEL', grant.name)
  expect(await locks.release(grant)).toBe('not-held')
}

async function shownOwner(factory: Factory): Promise<void> {
  const { adapter: locks, request, take } = bare(at(server), {}, factory)
  const wanted = request(uniqueName())
  // As core names an owner by default.
  const digest = createHash('sha256').update(wanted.attemptId).digest('hex')
  await take({ ...wanted, owner: `${wanted.attemptId.slice(0, 8)}-${digest.slice(0, 12)}` })
  expect((await locks.inspect(wanted.name)).holder?.owner).not.toContain(wanted.attemptId)
}

async function keptFromItsAttempt(factory: Factory): Promise<void> {
  const { adapter: locks, request, take } = bare(at(server), {}, factory)
  const wanted = request(uniqueName())
  const grant = await take(wanted)
  expect(await locks.release(grant, 60_000)).toBe('released')
  expect(await locks.renew([{ grant, ttlMs: 20_000, lockDelayMs: 0 }])).toEqual(['lost'])
  await locks.withdraw?.(wanted)
  expect((await locks.inspect(wanted.name)).held).toBe(true)
  expect(await locks.attempt(wanted)).toMatchObject({ busy: true })
}

async function nextGetHints(factory: Factory): Promise<void> {
  const lock = uniqueName()
  const holder = bare(at(server), {}, factory)
  const grant = await holder.take(holder.request(lock))
  const { adapter: waiter, wanted } = await enqueue(at(server), lock)
  // By itself it would look when the ttl of the hold is over.
  const turn = waiter.wait?.(wanted, 20_000, new AbortController().signal) ?? Promise.resolve(undefined)
  await holder.adapter.release(grant, 200)
  await inTime('the waiter looks when the lock is free', { ms: 5_000, waitsMs: 200 }, turn)
}

/** How long the fence of a name that is ahead of the clock is kept. */
async function fenceAhead(factory: Factory): Promise<void> {
  const { host, port } = server
  const options = { connection: { host, port }, fenceIdleMs: 5_000 }
  const { adapter: locks, request, take } = bare(options, {}, factory)
  const name = uniqueName()
  const token = `redisson_lock_token:{locks:${name}}`
  const ahead = BigInt(Date.now() + 3_600_000) * 1_000n
  await redisCommand(server, 'SET', token, String(ahead))
  await locks.release(await take(request(name)))
  expect(Number(await redisCommand(server, 'PTTL', token))).toBeGreaterThan(3_000_000)
  await locks.prune?.(0)
  expect(await redisCommand(server, 'EXISTS', token)).toBe(1)
}

async function noDatabase(factory: Factory): Promise<void> {
  const { host, port } = server
  const [options, name] = [{ serverSettings: 'ignore' } as const, uniqueName()]
  const sound = bare({ ...options, connection: { host, port } })
  // From here on the server knows the script.
  await sound.take(sound.request(uniqueName()))
  const connection = { host, port, db: 99, enableReadyCheck: false }
  const { adapter, request } = bare({ ...options, connection }, {}, factory)
  const refused = { code: 'LOCK_INVALID_ARGUMENT' }
  await expect(adapter.attempt(request(name))).rejects.toMatchObject(refused)
}

/** The handshake of the next connection takes so long that an attempt is made meanwhile. */
async function selectedDatabase(factory: Factory): Promise<void> {
  const proxy = await proxied(server)
  const client = new Redis({ host: proxy.host, port: proxy.port, db: 5 })
  client.on('error', () => undefined)
  onTestFinished(() => client.disconnect())
  await client.select(7)
  const [holder, other] = [bare({ client }, {}, factory), bare({ client }, {}, factory)]
  const { name } = await holder.take(holder.request(uniqueName()))
  await other.take(other.request(uniqueName()))
  const { bytesToServer, connections } = proxy.stats
  proxy.blackhole('replies')
  client.stream.destroy()
  await until(() => proxy.stats.connections > connections && proxy.stats.bytesToServer > bytesToServer)
  const attempt = other.adapter.attempt(other.request(name)).catch((error: unknown) => ({ error }))
  proxy.reset()
  expect(await attempt).not.toHaveProperty('fence')
}

interface Mutation extends Edit {
  readonly library?: string
}

const mutants: readonly (readonly [string, (factory: Factory) => Promise<void>, Mutation])[] = [
  [
    'a command is sent before the server has replied to SELECT',
    noDatabase,
    {
      file: 'redis/drivers/ioredis-clients.js',
      find: 'db ? { enableReadyCheck: true } :',
      replace: '',
      library: 'ioredis-5.3',
    },
  ],
  [
    'after a lost connection, a client that was sent SELECT uses its first database for a while',
    selectedDatabase,
    { file: 'redis/drivers/ioredis-clients.js', find: 'before !== undefined &&', replace: 'false &&' },
  ],
  [
    'the proof of a pushed grant is not checked',
    forgedGrant,
    {
      file: 'redis/waiters.js',
      find: 'this.#store.proofs.isValid(message.lock, message.attemptId, message.text, message.proof)',
      replace: 'true',
    },
  ],
  [
    'any text is an attempt id',
    bookkeepingName,
    {
      file: 'redis/lua.js',
      find: "(string.sub(${text}, 37, 37) == ':' and string.find(${text}, '^%d+$', 38))",
      replace: 'true',
    },
  ],
  [
    'any small hash is a lock',
    foreignHash,
    {
      file: 'redis/lua.js',
      find: 'if others or (#fields > 0 and not holder) or (queued and not fence) then return nil end',
      replace: '',
    },
  ],
  [
    'a field like a holder is a lock without a ttl too',
    foreignHolder,
    { file: 'redis/lua.js', find: "redis.call('PTTL', lock) < 0", replace: 'false' },
  ],
  [
    'any string is a counter of fences',
    foreignCounter,
    {
      file: 'redis/lua.js',
      find: "(last ~= '0' and not string.match(last, '^[1-9]%d*$'))",
      replace: 'false',
    },
  ],
  [
    'fences go on beyond what Lua counts exactly',
    highFence,
    { file: 'redis/lua.js', find: "wrong = 'range'", replace: 'wrong = nil' },
  ],
  [
    'a release of a free name has released it',
    releaseOfFree,
    {
      file: 'redis/queue-scripts.js',
      find: '  return 1\nend\n',
      replace: "  return redis.call('EXISTS', lock)\nend\n",
    },
  ],
  [
    'a kept lock is still held by its attempt',
    keptFromItsAttempt,
    { file: 'redis/queue-scripts.js', find: "redis.call('HDEL', lock, attempt)\n", replace: '' },
  ],
  [
    'a kept lock is found by its attempt',
    keptFromItsAttempt,
    {
      file: 'redis/store.js',
      find: '[attemptId, keptAttemptId(attemptId), keepMs]',
      replace: '[attemptId, attemptId, keepMs]',
    },
  ],
  [
    'waiters get no hint when a kept lock ends',
    nextGetHints,
    { file: 'redis/queue-scripts.js', find: "hintNext(' ' .. keepMs)", replace: '' },
  ],
  [
    'a fence that is ahead of the clock expires like any other',
    fenceAhead,
    {
      file: 'redis/lua.js',
      find: "'PXAT', string.format('%.0f', ${fence} / 1000 + ${fenceIdleMs} + 1)",
      replace: "'PX', ${fenceIdleMs}",
    },
  ],
  [
    'a fence that is ahead of the clock is pruned',
    fenceAhead,
    {
      file: 'redis/scripts.js',
      find: 'if tonumber(last) >= tonumber(now) - ARGV[1] * 1000 then return 0 end',
      replace: '',
    },
  ],
  [
    'the owner shown is the attempt id',
    shownOwner,
    { file: 'redis/record.js', find: 'owner ?? defaultOwner(attempt)', replace: 'owner ?? attempt' },
  ],
]

test.each(mutants)('is noticed: %s', async (_, notices, edit) => {
  await notices(await mutate([], edit.library))
  const mutant = await mutate([edit], edit.library)
  const noticed: unknown = await notices(mutant).then(
    () => undefined,
    (reason: unknown) => reason,
  )
  // Neither noticed nor not: this test then runs again.
  if (isVoidRun(noticed)) throw noticed
  expect(noticed instanceof Error && noticed.name).toMatch(/^(AssertionError|LateError)$/)
})
