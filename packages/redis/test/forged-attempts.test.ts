import { randomUUID } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import { redisCommand, redisFields, startService } from '../../../conformance/services/index.ts'
import { scriptsOf } from '../src/queue-scripts.ts'
import { adopt, raise, renew } from '../src/scripts.ts'
import { at, bare, connect, holdersOf, uniqueName } from './support/bed.ts'

// An attempt id from outside may be anything, the names of the fields that a lock has beside its holder among it.

const service = await startService('redis')
afterAll(() => service.close())
const server = service.server('redis')

const names = ['hold', 'queue', '', '*', '1', randomUUID(), `${randomUUID()}:`, `${randomUUID()}:1 `, ':1']

function textOf(fields: Readonly<Record<string, unknown>>): string {
  return Buffer.from(JSON.stringify({ v: 1, ...fields })).toString('base64url')
}

test('a hand-over text with everything public but without the attempt resumes nothing', async () => {
  const [locks, stranger] = [connect(at(server)), connect(at(server))]
  const lease = await locks.lock(uniqueName()).acquire()
  const { name } = lease
  const { holder } = await stranger.inspect(name)
  const facts = { name, owner: holder?.owner, fence: String(holder?.fence), ttlMs: 60_000, lockDelayMs: 0 }
  for (const attemptId of [...names, holder?.owner])
    await expect(stranger.resume(textOf({ ...facts, attemptId }))).rejects.toMatchObject({
      code: 'LOCK_INVALID_ARGUMENT',
    })
  await lease.extend()
  await lease.release()
})

test('no script takes anything but an attempt id for the holder of a lock', async () => {
  const { request, take, adapter } = bare(at(server))
  const wanted = request(uniqueName())
  const grant = await take(wanted)
  const [lock, token, queue] = [
    wanted.name,
    `redisson_lock_token:{${wanted.name}}`,
    `locks_queue:{${wanted.name}}`,
  ]
  await redisCommand(server, 'HSET', lock, 'queue', 1)
  const before = await redisFields(server, 'HGETALL', lock)
  const { acquire, release } = scriptsOf(false, 0)
  const other = `${randomUUID()}:1`
  /** The last argument names the call; what a script says may begin with it. */
  const run = async (
    text: string,
    keys: readonly string[],
    ...args: readonly (string | number)[]
  ): Promise<string> =>
    JSON.stringify(await redisCommand(server, 'EVAL', text, keys.length, ...keys, ...args, 'call '))
  const [fence, higher] = [String(grant.fence), String(grant.fence + 9n)]
  for (const name of names) {
    expect(await run(adopt.text, [lock], name, other, fence, 60_000, 0, '{}')).toContain(
      '"refused","attempt"',
    )
    expect(await run(adopt.text, [lock], wanted.attemptId, name, fence, 60_000, 0, '{}')).toContain(
      '"refused"',
    )
    expect(await run(acquire.text, [lock, token, queue], name, 60_000, '{}')).toContain('"refused","attempt"')
    expect(await run(renew.text, [lock], name, 90_000, 0)).toContain('[0]')
    expect(await run(release.text, [lock, token, queue], name)).toMatch(/^("call )?1"?$/)
    expect(await run(raise.text, [lock, token], name, higher, fence)).toMatch(/^("call )?0"?$/)
  }
  expect(await redisFields(server, 'HGETALL', lock)).toEqual(before)
  expect(await redisCommand(server, 'PTTL', lock)).toBeLessThanOrEqual(20_000)
  for (const attemptId of names) {
    await expect(adapter.attempt({ ...wanted, attemptId })).rejects.toMatchObject({
      code: 'LOCK_INVALID_ARGUMENT',
    })
    expect(await adapter.release({ ...grant, attemptId })).toBe('not-held')
  }
  expect(await adapter.release(grant)).toBe('released')
})

test('nothing that can be read shows the attempt id of a hold, which is all that a successor has to know', async () => {
  const [locks, reader] = [connect(at(server)), connect(at(server))]
  const lease = await locks.lock(uniqueName()).acquire()
  const [first] = await holdersOf(server, lease.name)
  const [attempt] = first ?? expect.fail('it is not held')
  const failure: unknown = await reader
    .lock(lease.name)
    .acquire({ waitMs: 60_000, retry: { attempts: 1 } })
    .catch((error: unknown) => error)
  const listed = (await reader.list({ limit: 10_000 })).find(({ name }) => name === lease.name)
  const shown = [await reader.inspect(lease.name), listed, failure, await reader.lock(lease.name).break()]
  for (const one of shown) {
    const text = JSON.stringify(one, (_, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value,
    )
    expect(`${text} ${one instanceof Error ? one.message : ''}`).not.toContain(attempt)
    expect(text).toContain('fence')
  }
})
