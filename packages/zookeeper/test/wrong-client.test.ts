import { zookeeper } from '@locks/zookeeper'
import { expect, test } from 'vitest'

test.each<readonly [unknown, RegExp]>([
  [null, /not null/],
  [Promise.resolve(), /not a Promise: await it first/],
  [{ sendCommand() {}, isCluster: false, status: 'ready' }, /not a client of ioredis/],
])('what is not a client of node-zookeeper-client is refused before anything is sent', (client, message) => {
  const open = (): unknown => Reflect.apply(zookeeper, undefined, [{ client }])
  expect(open).toThrow(message)
  expect(open).toThrow(expect.objectContaining({ code: 'LOCK_INVALID_ARGUMENT' }))
})
