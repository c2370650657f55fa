import { openLocks } from '@locks/core'
import type { AdapterConfigs, Duration } from '@locks/core'
import type { Given } from '@locks/core/adapter'
import type { CasOptions, FileStoreOptions, RedisStoreOptions } from '@locks/cas'
import type { MysqlOptions, SessionOptions, SharedOptions as MysqlShared } from '@locks/mysql'
import type {
  AdvisoryOptions,
  PostgresOptions,
  RowOptions,
  SharedOptions as PostgresShared,
  UniqueKeyOptions,
} from '@locks/postgres'
import type { RedisOptions } from '@locks/redis'
import type { RedlockOptions } from '@locks/redlock'
import type { ZookeeperOptions } from '@locks/zookeeper'
import { describe, expectTypeOf, test } from 'vitest'
import type { declared as casDeclared } from '../../packages/cas/src/option-table.ts'
import type { declared as mysqlDeclared } from '../../packages/mysql/src/option-table.ts'
import type { declared as postgresDeclared } from '../../packages/postgres/src/option-table.ts'
import type { declared as redisDeclared } from '../../packages/redis/src/option-table.ts'
import type { declared as redlockDeclared } from '../../packages/redlock/src/option-table.ts'
import type { declared as zookeeperDeclared } from '../../packages/zookeeper/src/option-table.ts'

declare module '@locks/core' {
  interface AdapterConfigs {
    'locks-of-another-house': { readonly region: string; readonly patienceMs?: Duration }
  }
}

type Keys<T> = T extends unknown ? keyof T : never

/** Never called: a package adds its own config by declaring it. */
export async function declared(): Promise<void> {
  await openLocks({ adapter: 'locks-of-another-house', region: 'north', patienceMs: '1m' })
  // @ts-expect-error region is missing
  await openLocks({ adapter: 'locks-of-another-house' })
}

/** Without the rows that stand only in URLs. */
type InCode<T> = { [K in keyof T as T[K] extends { readonly inUrl: 'only' } ? never : K]: T[K] }

/** The rows of a table whose type follows from their kind; the others are checked by their keys alone. */
type Plain<T> = { [K in keyof T as T[K] extends { readonly kind: 'value' } ? never : K]: T[K] }

describe('the options of an adapter are those that it declares, and of the same types', () => {
  test('redis', () => {
    type Table = InCode<(typeof redisDeclared)['options']>
    expectTypeOf<keyof RedisOptions>().toEqualTypeOf<keyof Table>()
    expectTypeOf<Pick<RedisOptions, keyof Plain<Table>>>().toEqualTypeOf<Given<Plain<Table>>>()
  })

  test('redlock', () => {
    type Table = (typeof redlockDeclared)['options']
    expectTypeOf<keyof RedlockOptions>().toEqualTypeOf<keyof Table>()
    expectTypeOf<Pick<RedlockOptions, keyof Plain<Table>>>().toEqualTypeOf<Given<Plain<Table>>>()
  })

  test('zookeeper', () => {
    type Table = (typeof zookeeperDeclared)['options']
    expectTypeOf<keyof ZookeeperOptions>().toEqualTypeOf<keyof Table>()
    expectTypeOf<Pick<ZookeeperOptions, keyof Plain<Table>>>().toEqualTypeOf<Given<Plain<Table>>>()
  })

  test('postgres', () => {
    type Table = (typeof postgresDeclared)['options']
    type Own = PostgresShared & UniqueKeyOptions & RowOptions & AdvisoryOptions
    expectTypeOf<Keys<PostgresOptions>>().toEqualTypeOf<keyof Table>()
    expectTypeOf<keyof Own>().toEqualTypeOf<Exclude<keyof Table, 'url' | 'pool' | 'strategy'>>()
    expectTypeOf<{ readonly [K in keyof Own]: Own[K] }>().toEqualTypeOf<Given<Pick<Table, keyof Own>>>()
  })

  test('mysql', () => {
    type Table = InCode<(typeof mysqlDeclared)['options']>
    type Own = MysqlShared & SessionOptions
    expectTypeOf<Keys<MysqlOptions<'row'>>>().toEqualTypeOf<keyof Table>()
    expectTypeOf<keyof Own>().toEqualTypeOf<Exclude<keyof Table, 'url' | 'pool' | 'strategy'>>()
    expectTypeOf<{ readonly [K in keyof Own]: Own[K] }>().toEqualTypeOf<Given<Pick<Table, keyof Own>>>()
  })

  test('cas', () => {
    type Table = (typeof casDeclared)['options']
    type Own = CasOptions & FileStoreOptions & RedisStoreOptions
    expectTypeOf<keyof Own>().toEqualTypeOf<Exclude<keyof Table, 'store' | 'name'>>()
    expectTypeOf<Partial<Pick<Own, keyof Plain<Table> & keyof Own>>>().toEqualTypeOf<
      Given<Pick<Table, keyof Plain<Table> & keyof Own>>
    >()
  })
})

describe('what core says of an adapter’s config is what the adapter itself takes', () => {
  test('key by key, less what JSON cannot carry', () => {
    expectTypeOf<Keys<AdapterConfigs['@locks/redis']>>().toEqualTypeOf<
      Exclude<Keys<RedisOptions>, 'client' | 'onWarning'>
    >()
    expectTypeOf<Keys<AdapterConfigs['@locks/redlock']>>().toEqualTypeOf<Keys<RedlockOptions>>()
    expectTypeOf<Keys<AdapterConfigs['@locks/zookeeper']>>().toEqualTypeOf<
      Exclude<Keys<ZookeeperOptions>, 'client'>
    >()
    expectTypeOf<Keys<AdapterConfigs['@locks/postgres']>>().toEqualTypeOf<
      Exclude<Keys<PostgresOptions>, 'pool'>
    >()
    expectTypeOf<Keys<AdapterConfigs['@locks/mysql']>>().toEqualTypeOf<
      Exclude<Keys<MysqlOptions<'row'>>, 'pool'>
    >()
  })

  test('and its strategies', () => {
    expectTypeOf<AdapterConfigs['@locks/postgres']['strategy']>().toEqualTypeOf<PostgresOptions['strategy']>()
    expectTypeOf<AdapterConfigs['@locks/mysql']['strategy']>().toEqualTypeOf<MysqlOptions['strategy']>()
  })
})
