import { redlock } from '@locks/redlock'
import type { RedlockOptions } from '@locks/redlock'
import { bareAdapter } from '../../../conformance/test-support/bare-adapter.ts'
import { expect, test } from 'vitest'

test.each<readonly [unknown, RegExp]>([
  [undefined, /not undefined/],
  [Promise.resolve(), /not a Promise: await it first/],
  [{ sendCommand() {}, isOpen: true, isReady: true, options: {} }, /not a client of node-redis/],
])('what is not a client of ioredis is refused before anything is sent', (client, message) => {
  const node: object = { client }
  const options: RedlockOptions = { nodes: [node] }
  expect(() => bareAdapter(redlock(options))).toThrow(message)
})
