import { postgres } from '@locks/postgres'
import { Client } from 'pg'
import { expect, test } from 'vitest'

test.each<readonly [unknown, RegExp]>([
  [null, /not null/],
  [Promise.resolve(), /not a Promise: await it first/],
  [new Client(), /not a single client of pg/],
  [{ getConnection() {}, execute() {} }, /not a pool of mysql2/],
])('what is not a pool of pg is refused before anything is sent', (pool, message) => {
  const given: object = { pool }
  const open = (): unknown => Reflect.apply(postgres, undefined, [given])
  expect(open).toThrow(message)
  expect(open).toThrow(expect.objectContaining({ code: 'LOCK_INVALID_ARGUMENT' }))
})
