import { mysql } from '@locks/mysql'
import { createConnection, createPool } from 'mysql2'
import { createPool as createPromisePool } from 'mysql2/promise'
import { expect, onTestFinished, test } from 'vitest'

const open = (pool: unknown) => (): unknown => Reflect.apply(mysql, undefined, [{ pool }])

test('anything but a pool of mysql2 is refused before anything is sent', () => {
  expect(open(null)).toThrow(/not null/)
  expect(open(Promise.resolve())).toThrow(/not a Promise: await it first/)
  expect(open({ connect() {}, totalCount: 0, idleCount: 0 })).toThrow(/not a pool of pg/)
  const connection = createConnection({ host: '127.0.0.1', port: 1 }).on('error', () => undefined)
  onTestFinished(() => connection.destroy())
  expect(open(connection)).toThrow(/not a single connection of mysql2/)
  expect(open(connection)).toThrow(expect.objectContaining({ code: 'LOCK_INVALID_ARGUMENT' }))
})

test('pools with callbacks and with promises are accepted', () => {
  const callbacks = createPool({ host: '127.0.0.1', port: 1 })
  const promises = createPromisePool({ host: '127.0.0.1', port: 1 })
  onTestFinished(() => callbacks.end(() => undefined))
  onTestFinished(() => promises.end())
  expect(open(callbacks)).not.toThrow()
  expect(open(promises)).not.toThrow()
})
