import { randomUUID } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import { redisCommand, redisConversation, startService } from '../../../conformance/services/index.ts'
import { at, bare, commandCounts, connect, exists, queued, uniqueName } from './support/bed.ts'

// A key of an application that is where a lock, its queue or its fences would be.

const service = await startService('redis')
afterAll(() => service.close())
const server = service.server('redis')

const java = `${randomUUID()}:1`
const fields = Array.from({ length: 9_000 }, (_, n) => [`field ${n}`, n]).flat()

/** What it is, the word for it in the error, and how it came to be. */
const kinds: readonly (readonly [string, string, readonly (string | number)[]])[] = [
  ['a string', 'a string', ['SET', 'precious']],
  ['a list', 'a list', ['RPUSH', 'precious']],
  ['a set', 'a set', ['SADD', 'precious']],
  ['a sorted set', 'a zset', ['ZADD', 1, 'precious']],
  ['a stream', 'a stream', ['XADD', '1-1', 'precious', 1]],
  ['a hash', 'a hash of 2 fields', ['HSET', 'name', 'bob', 'email', 'b@x']],
  ['a hash of one field', 'a hash of 1 field', ['HSET', 'name', 1]],
  ['a large hash', 'a hash of 9000 fields', ['HSET', ...fields]],
  ['a hash with our fields and no holder', 'a hash of 2 fields', ['HSET', 'hold', '1;;x', 'queue', 1]],
  ['a hash with a field like a holder', 'a hash of 2 fields', ['HSET', java, 1, 'email', 'b@x']],
  ['a field like a holder with a text', 'a hash of 1 field', ['HSET', java, 'bob']],
  ['a lock of Redisson without the ttl of each', 'a hash of 1 field', ['HSET', java, 1]],
  ["Redisson's read-write lock", 'a hash of 2 fields', ['HSET', 'mode', 'read', java, 1]],
]

/** The application: a user with the commands of `kinds`, and no other. */
const application = ['application', 'right'] as const
const commands = [...new Set(kinds.map(([, , [command]]) => `+${command}`.toLowerCase()))]
const rights = ['on', `>${application[1]}`, 'allkeys', 'resetchannels', '-@all', ...commands]
await redisCommand(server, 'ACL', 'SETUSER', application[0], ...rights)

async function put(key: string, [command = '', ...rest]: readonly (string | number)[]): Promise<void> {
  await redisConversation(server, async (ask) => {
    await ask('AUTH', ...application)
    await ask(String(command), key, ...rest)
  })
}

const contentOf = async (key: string): Promise<string> => {
  const type = await redisCommand(server, 'TYPE', key)
  const read =
    type === 'hash'
      ? ['HGETALL', key]
      : type === 'zset'
        ? ['ZRANGE', key, 0, -1, 'WITHSCORES']
        : ['DUMP', key]
  const content = await redisCommand(server, ...read)
  const inOrder = Array.isArray(content) ? content.map(String).toSorted() : content
  return JSON.stringify([type, await redisCommand(server, 'PTTL', key), inOrder])
}

interface Failure {
  readonly code: string
  readonly message: unknown
}

const refusal = (key: string, what: string): Failure => ({
  code: 'LOCK_INVALID_ARGUMENT',
  message: expect.stringMatching(new RegExp(`${JSON.stringify(key)}.* ${what} `)),
})

describe.each(kinds)('where a lock would be is %s', (_, what, content) => {
  test('every call fails at once, says what is there, and changes nothing', async () => {
    const locks = connect(at(server))
    const lock = uniqueName()
    await put(lock, content)
    const before = await contentOf(lock)
    const failure = refusal(lock, what)
    await locks.with(uniqueName(), () => undefined)
    const { evalsha: sent = 0 } = await commandCounts(server)
    await expect(locks.lock(lock).tryAcquire()).rejects.toMatchObject(failure)
    await expect(locks.lock(lock).acquire({ waitMs: 60_000 })).rejects.toMatchObject(failure)
    await expect(locks.inspect(lock)).rejects.toMatchObject(failure)
    await expect(locks.lock(lock).break()).rejects.toMatchObject(failure)
    // Each asks once; what acquires also withdraws. Some of the scripts have to be loaded.
    expect(((await commandCounts(server)).evalsha ?? 0) - sent).toBeLessThanOrEqual(6)
    expect(await contentOf(lock)).toBe(before)
    expect(await exists(server, `redisson_lock_token:{${lock}}`, `locks_queue:{${lock}}`)).toBe(false)
  })

  test('no call of the adapter changes it, by whatever holder it is asked about', async () => {
    const { adapter, request } = bare(at(server))
    const lock = uniqueName()
    await put(lock, content)
    const before = await contentOf(lock)
    const failure = refusal(lock, what)
    const wanted = request(lock, { willWait: true })
    const grant = { name: lock, attemptId: wanted.attemptId, fence: 1n, ttlMs: 1_000 }
    await expect(adapter.attempt(wanted)).rejects.toMatchObject(failure)
    for (const holder of [{ owner: java }, { owner: 'name' }, { owner: 'hold' }, { owner: java, fence: 1n }])
      await expect(adapter.break?.(lock, holder)).rejects.toMatchObject(failure)
    for (const attemptId of [java, wanted.attemptId])
      await expect(adapter.adopt?.({ name: lock, attemptId, fence: 1n }, wanted)).rejects.toMatchObject(
        failure,
      )
    expect(await adapter.renew([{ grant, ttlMs: 1_000, lockDelayMs: 0 }])).toEqual(['lost'])
    expect(await adapter.release(grant)).toBe('not-held')
    await adapter.withdraw?.(wanted)
    expect(await adapter.list?.(10_000)).not.toContainEqual(expect.objectContaining({ name: lock }))
    expect(await contentOf(lock)).toBe(before)
  })
})

test.each(kinds)('a queue that is %s stays as it is: no waiter is added', async (_, what, content) => {
  const locks = connect(at(server))
  const lock = uniqueName()
  const queue = `locks_queue:{${lock}}`
  const lease = await locks.lock(lock).acquire()
  await put(queue, content)
  const before = await contentOf(queue)
  const failure = refusal(queue, what)
  const other = connect(at(server))
  await expect(other.lock(lock).acquire({ waitMs: 60_000 })).rejects.toMatchObject(failure)
  await expect(other.inspect(lock)).rejects.toMatchObject(failure)
  await lease.release()
  await expect(other.lock(lock).tryAcquire()).rejects.toMatchObject(failure)
  expect(await contentOf(queue)).toBe(before)
  expect(await exists(server, lock)).toBe(false)
})

test.each([...kinds, ['a text of digits', 'a string', ['SET', '007']] as const])(
  'a counter of fences that is %s stays as it is: nothing is granted',
  async (_, what, content) => {
    const [locks, other] = [connect(at(server)), connect(at(server))]
    const lock = uniqueName()
    const token = `redisson_lock_token:{${lock}}`
    await put(token, content)
    const before = await contentOf(token)
    await expect(locks.lock(lock).tryAcquire()).rejects.toMatchObject(
      refusal(token, what.split(' of ')[0] ?? ''),
    )
    expect(await exists(server, lock)).toBe(false)
    // The same where it comes to be there while the lock is held and waited for.
    await redisCommand(server, 'DEL', token)
    const lease = await locks.lock(lock).acquire()
    const turn = other.lock(lock).acquire({ waitMs: 60_000 })
    const refused = expect(turn).rejects.toMatchObject(refusal(token, what.split(' of ')[0] ?? ''))
    await queued(locks, lock)
    await redisCommand(server, 'DEL', token)
    await put(token, content)
    await lease.release()
    await refused
    expect(await contentOf(token)).toBe(before)
    expect(await exists(server, lock)).toBe(false)
  },
)

test('a field that an application has put into a held lock outlives the release, and is reported then', async () => {
  const [locks, waiter] = [connect(at(server)), connect(at(server))]
  const lock = uniqueName()
  const lease = await locks.lock(lock).acquire()
  const turn = waiter.lock(lock).acquire({ waitMs: 60_000 })
  const refused = expect(turn).rejects.toMatchObject(refusal(lock, 'a hash of 1 field'))
  await queued(locks, lock)
  await redisCommand(server, 'HSET', lock, 'name', 'bob')
  await lease.release()
  await refused
  expect(await redisCommand(server, 'HGETALL', lock)).toEqual(['name', 'bob'])
})

test('a lock with a queue that is something else does not keep the others from being listed', async () => {
  const prefix = `${uniqueName('prefix')}:`
  const locks = connect({ ...at(server), prefix })
  const [odd, sane] = [await locks.lock('odd').acquire(), await locks.lock('sane').acquire()]
  await put(`locks_queue:{${prefix}${odd.name}}`, ['SET', 'precious'])
  expect((await locks.list()).map(({ name }) => name)).toEqual([sane.name])
})

test('without a prefix given, locks are kept apart from the keys of applications', async () => {
  const { host, port } = server
  const name = uniqueName('user')
  await redisCommand(server, 'HSET', name, 'name', 'bob', 'email', 'b@x')
  for (const options of [{ connection: { host, port } }, { url: `redis://${host}:${port}` }]) {
    const locks = connect(options)
    expect(await locks.inspect(name)).toMatchObject({ held: false })
    expect(await locks.lock(name).break()).toBeNull()
    const lease = await locks.lock(name).acquire()
    expect(await exists(server, `locks:${name}`)).toBe(true)
    expect((await locks.list({ limit: 10_000 })).map((state) => state.name)).toContain(name)
    await lease.release()
  }
  expect(await redisCommand(server, 'HGETALL', name)).toEqual(['name', 'bob', 'email', 'b@x'])
})

test('an empty prefix, in a URL too, shares names with Redisson', async () => {
  const { host, port } = server
  const lock = uniqueName()
  await redisCommand(server, 'HSET', lock, java, 1)
  await redisCommand(server, 'PEXPIRE', lock, 600_000)
  for (const options of [at(server), { url: `redis://${host}:${port}?prefix=` }])
    expect(await connect(options).inspect(lock)).toMatchObject({ held: true, holder: { owner: java } })
})

describe('fences stay in the range that Lua counts exactly', () => {
  const last = 2n ** 53n - 1n

  test('the last one is granted, and none after it', async () => {
    const locks = connect(at(server))
    const lock = uniqueName()
    const token = `redisson_lock_token:{${lock}}`
    await redisCommand(server, 'SET', token, String(last - 1n))
    const lease = await locks.lock(lock).acquire()
    expect(lease.fence).toBe(last)
    await lease.release()
    const message: unknown = expect.stringContaining(JSON.stringify(token))
    const failure = { code: 'LOCK_UNSUPPORTED', message }
    await expect(locks.lock(lock).acquire()).rejects.toMatchObject(failure)
    expect(await exists(server, lock)).toBe(false)
    expect(await redisCommand(server, 'GET', token)).toBe(String(last))
  })

  test.each([last, last + 1n, last + 2n, 10n ** 17n, 10n ** 40n])(
    'a counter at %s grants nothing',
    async (seed) => {
      const locks = connect(at(server))
      const lock = uniqueName()
      const token = `redisson_lock_token:{${lock}}`
      await redisCommand(server, 'SET', token, String(seed))
      await expect(locks.lock(lock).acquire()).rejects.toMatchObject({ code: 'LOCK_UNSUPPORTED' })
      expect(await redisCommand(server, 'GET', token)).toBe(String(seed))
      expect(await exists(server, lock)).toBe(false)
    },
  )
})
