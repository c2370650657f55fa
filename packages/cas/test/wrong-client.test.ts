import { redisStore, tairStore } from '@locks/cas'
import type { StoreFactory } from '@locks/cas'
import { expect, test } from 'vitest'

const stores: readonly (readonly [string, (options: object) => StoreFactory])[] = [
  ['redis', redisStore],
  ['tair', tairStore],
]

test.each(stores)('%s refuses what is not a client of ioredis before anything is sent', (_, store) => {
  const open = (client: unknown) => () => store({ client })()
  expect(open(undefined)).toThrow(/not undefined/)
  expect(open(Promise.resolve())).toThrow(/not a Promise: await it first/)
  const other = { sendCommand() {}, isOpen: true, isReady: true, options: {} }
  expect(open(other)).toThrow(/not a client of node-redis/)
  expect(open(other)).toThrow(expect.objectContaining({ code: 'LOCK_INVALID_ARGUMENT' }))
})
