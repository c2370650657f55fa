import { LockError } from '@locks/core'
import { redis, redisGuard } from '@locks/redis'
import type { RedisOptions } from '@locks/redis'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { expect, test } from 'vitest'
import { startService } from '../../../conformance/services/index.ts'

// What is not a client of ioredis is refused before anything is sent: a reply to it may end the process.

/** As a program without types has it. */
function given(client: unknown): RedisOptions {
  const options: object = { client }
  return options
}

function refusal(make: () => unknown): LockError {
  try {
    make()
  } catch (error) {
    if (error instanceof LockError) return error
  }
  throw new Error('nothing was refused')
}

test.each<readonly [unknown, RegExp]>([
  [undefined, /not undefined$/],
  [null, /not null$/],
  ['redis://localhost', /not a string$/],
  [Redis, /not a function$/],
  [Promise.resolve(), /not a Promise: await it first$/],
  [{ host: 'localhost' }, /not an object of another kind$/],
  [new Map(), /not an object of class Map$/],
  [[], /not a list$/],
])('%s is refused as a client', (client, message) => {
  expect(refusal(() => redis(given(client)))).toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  expect(refusal(() => redis(given(client))).message).toMatch(message)
})

test('a connected client of node-redis is refused, by locks and by guards, and goes on working', async () => {
  await using service = await startService('redis')
  const client = createClient({ url: service.url })
  await client.connect()
  const options = given(client)
  const error = refusal(() => redis(options))
  expect(error.code).toBe('LOCK_INVALID_ARGUMENT')
  expect(error.message).toMatch(/not a client of node-redis/)
  const wrong: unknown = client
  expect(refusal(() => Reflect.apply(redisGuard, undefined, [wrong, 'guard'])).message).toMatch(/node-redis/)
  expect(await client.ping()).toBe('PONG')
  client.destroy()
})
