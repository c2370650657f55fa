import { afterAll, expect, test } from 'vitest'
import { redisCommand, redisFields, startService } from '../../../conformance/services/index.ts'
import { at, bare, connect, uniqueName } from './support/bed.ts'

const service = await startService('redis')
afterAll(() => service.close())
const server = service.server('redis')

/** What Redisson's `tryLock` asks: 0 free, 1 its own, else for how many ms it has to wait. */
const TRY_LOCK = `
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 1 end
return redis.call('PTTL', KEYS[1])
`

test('a lock that stays taken is taken for Redisson too, for the time that remains', async () => {
  const lock = uniqueName()
  const { adapter, request, take } = bare(at(server))
  const wanted = request(lock)
  await adapter.release(await take(wanted), 60_000)
  const fields = await redisFields(server, 'HGETALL', lock)
  expect(fields.has(wanted.attemptId)).toBe(false)
  expect(fields.size).toBe(2)
  for (const holder of [wanted.attemptId, 'a-thread-of-redisson:1']) {
    const leftMs = Number(await redisCommand(server, 'EVAL', TRY_LOCK, '1', lock, holder))
    expect(leftMs).toBeGreaterThan(1)
    expect(leftMs).toBeLessThanOrEqual(60_000)
  }
})

test('and shows the earlier holder, with its default owner too, but not its attempt id', async () => {
  const locks = connect(at(server))
  const lease = await locks.lock(uniqueName()).acquire({ minHoldMs: 60_000, label: 'the job' })
  await lease.release()
  const { holder } = await locks.inspect(lease.name)
  expect(holder).toMatchObject({ owner: lease.owner, fence: lease.fence, metadata: { label: 'the job' } })
})

test('a key that is not a lock any more is left alone by a release', async () => {
  const { adapter, request, take } = bare(at(server))
  const grant = await take(request(uniqueName()))
  await redisCommand(server, 'SET', grant.name, 'precious')
  expect(await adapter.release(grant, 60_000)).toBe('not-held')
  expect(await redisCommand(server, 'GET', grant.name)).toBe('precious')
  expect(await redisCommand(server, 'PTTL', grant.name)).toBe(-1)
})
