import { cas } from '@locks/cas'
import { createLocks } from '@locks/core'
import { memory } from '@locks/memory'
import { mysql } from '@locks/mysql'
import { postgres } from '@locks/postgres'
import { redis } from '@locks/redis'
import { redlock } from '@locks/redlock'
import { zookeeper } from '@locks/zookeeper'
import { expect, test } from 'vitest'

/** What a program without types does, or with a value that is not what it seems. */
function said(call: (...args: never[]) => unknown, ...args: readonly unknown[]): string {
  try {
    Reflect.apply(call, undefined, args)
    return 'nothing'
  } catch (error) {
    return error instanceof Error && 'code' in error
      ? `${String(error.code)} ${error.message}`
      : String(error)
  }
}

test.each([
  [redis, "@locks/redis: options must be an object, such as { url: 'redis://host' }"],
  [
    redlock,
    "@locks/redlock: options must be an object, such as { nodes: ['redis://a', 'redis://b', 'redis://c'] }",
  ],
  [postgres, "@locks/postgres: options must be an object, such as { url: 'postgres://user@host/database' }"],
  [mysql, "@locks/mysql: options must be an object, such as { url: 'mysql://user@host/database' }"],
  [zookeeper, "@locks/zookeeper: options must be an object, such as { url: 'zookeeper://host' }"],
  [cas, '@locks/cas: cas needs a store, such as fileStore({ directory })'],
] as const)('%o given a URL, or nothing, says what it needs', (adapter, message) => {
  for (const given of ['any://host', undefined])
    expect(said(adapter, given)).toBe(`LOCK_INVALID_ARGUMENT ${message}`)
})

test.each([redis, redlock, postgres, mysql, zookeeper, cas, memory])(
  'createLocks given %o itself says that it is to be called',
  (adapter) => {
    const { name } = adapter
    expect(said(createLocks, adapter)).toContain(
      `LOCK_INVALID_ARGUMENT createLocks needs what ${name}(…) returns: call it, as in createLocks(redis({ url }))`,
    )
  },
)

test('createLocks given a URL names openLocks', () => {
  expect(said(createLocks, 'redis://localhost')).toMatch(/^LOCK_INVALID_ARGUMENT .*goes to openLocks$/)
})

test.each([
  [postgres, 'postgres'],
  [mysql, 'mysql'],
])('%o refuses a URL with #, whose rest would be lost, and does not show it', (adapter, scheme) => {
  const refusal = said(adapter, { url: `${scheme}://user@host/shop#sesame` })
  expect(refusal).toMatch(/^LOCK_INVALID_ARGUMENT .*url must not have a #; write %23/)
  expect(refusal).not.toContain('sesame')
})
