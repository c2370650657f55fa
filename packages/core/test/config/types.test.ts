import { describe, expectTypeOf, test } from 'vitest'
import { openLocks } from '../../src/index.ts'
import type { Duration, Locks, LocksConfig } from '../../src/index.ts'

declare module '../../src/config/types.ts' {
  interface AdapterConfigs {
    'locks-etcd': { readonly endpoints: readonly string[]; readonly leaseMs?: Duration }
  }
}

/** Never called: only the compiler's errors matter, with no adapter imported. */
export async function typed(): Promise<void> {
  await openLocks({ adapter: '@locks/redis', url: 'redis://h', claimTtlMs: '2s', defaults: { ttlMs: '10s' } })
  await openLocks({
    adapter: '@locks/postgres',
    url: 'postgres://h/db',
    strategy: 'row',
    sessionTtlMs: 5_000,
  })
  await openLocks({ adapter: '@locks/cas', store: 'file', directory: '/var/lock/app' })
  await openLocks({ adapter: './my-adapter.js', anything: [1, 2] })
  await openLocks({ adapter: 'locks-etcd', endpoints: ['a'], leaseMs: '1m' })
  await openLocks({ stores: { main: 'redis://h', audit: { adapter: '@locks/memory' } }, default: 'main' })
  // @ts-expect-error no such option
  await openLocks({ adapter: '@locks/redis', url: 'redis://h', prefx: 'app:' })
  // @ts-expect-error not a duration
  await openLocks({ adapter: '@locks/redis', url: 'redis://h', claimTtlMs: 'soon' })
  // @ts-expect-error either of them
  await openLocks({ adapter: '@locks/redis', url: 'redis://h', connection: {} })
  // @ts-expect-error no such strategy
  await openLocks({ adapter: '@locks/mysql', url: 'mysql://h/db', strategy: 'advisory' })
  // @ts-expect-error this store has no url
  await openLocks({ adapter: '@locks/cas', store: 'file', url: 'redis://h' })
  // @ts-expect-error this package is not declared
  await openLocks({ adapter: 'locks-consul', url: 'x' })
  // @ts-expect-error nor is this a key of the one that was
  await openLocks({ adapter: 'locks-etcd', endpoints: ['a'], url: 'x' })
  // @ts-expect-error also inside stores
  await openLocks({ stores: { main: { adapter: '@locks/redis', urll: 'redis://h' } } })
  // @ts-expect-error no such lock option
  await openLocks({ adapter: '@locks/memory', defaults: { ttl: 5 } })
}

describe('types of a config', () => {
  test('a config is text or plain data', () => {
    expectTypeOf<string>().toExtend<LocksConfig>()
    expectTypeOf(openLocks).returns.resolves.toEqualTypeOf<Locks>()
  })
})
