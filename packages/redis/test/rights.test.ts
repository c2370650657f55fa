import { afterAll, expect, test } from 'vitest'
import { redisCommand, redisConversation, startService } from '../../../conformance/services/index.ts'
import type { RedisReply } from '../../../conformance/services/index.ts'
import { at, connect, enqueue, uniqueName } from './support/bed.ts'

const service = await startService('redis')
afterAll(() => service.close())
const server = service.server('redis')

/** Sends a command as a user with these rights and no others. */
async function userWith(...rights: readonly string[]): Promise<(...words: string[]) => Promise<RedisReply>> {
  const [name, password] = [uniqueName('user'), 'right']
  await redisCommand(server, 'ACL', 'SETUSER', name, 'on', `>${password}`, '-@all', ...rights)
  return (...words) =>
    redisConversation(server, async (ask) => {
      await ask('AUTH', name, password)
      const [command = '', ...rest] = words
      return ask(command, ...rest)
    })
}

test('a user that may read all keys sees holder and waiters, and can change neither', async () => {
  const reader = await userWith('%R~*', 'resetchannels', '+@read')
  const holder = connect(at(server))
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire()
  const { wanted } = await enqueue(at(server), lock)
  const [queue, token] = [`locks_queue:{${lock}}`, `redisson_lock_token:{${lock}}`]
  const fields = await reader('HGETALL', lock)
  const [attempt = ''] = Array.isArray(fields)
    ? fields.map(String).filter((field) => /^[^:]+:\d+$/.test(field))
    : []
  expect(attempt).not.toBe('')
  expect(String(await reader('ZRANGE', queue, '0', '-1'))).toContain(wanted.attemptId)
  expect(await reader('GET', token)).toBe(String(lease.fence))
  const [client = ''] = wanted.attemptId.split(':')
  const writes = [
    ['HDEL', lock, attempt],
    ['HSET', lock, wanted.attemptId, '1'],
    ['DEL', lock],
    ['PEXPIRE', lock, '1'],
    ['RENAME', lock, uniqueName()],
    ['DEL', queue],
    ['ZADD', queue, '0', wanted.attemptId],
    ['SET', token, '1'],
    ['EVAL', "return redis.call('DEL', KEYS[1])", '1', lock],
    ['PUBLISH', `locks_grants:${client}`, 'granted'],
    ['FLUSHALL'],
  ]
  for (const words of writes) await expect(reader(...words)).rejects.toThrow(/NOPERM/)
  await lease.extend()
  expect(await holder.inspect(lock)).toMatchObject({ held: true, holder: { fence: lease.fence }, waiters: 1 })
  await lease.release()
})
