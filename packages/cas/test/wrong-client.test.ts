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

test.each(stores)('%s never opens the default server in place of a client it cannot use', (_, store) => {
  const whole = { sendCommand() {}, duplicate() {}, disconnect() {}, on() {}, isCluster: false, options: {} }
  expect(() => store({ client: { ...whole, status: 'ready' } })()).not.toThrow()
  for (const part of Object.keys(whole)) {
    const client = { ...whole, status: 'ready', [part]: undefined }
    const open = (): unknown => store({ client })()
    expect(open, part).toThrow(/client must be a Redis or a Cluster/)
    expect(open).toThrow(expect.objectContaining({ code: 'LOCK_INVALID_ARGUMENT' }))
  }
})
