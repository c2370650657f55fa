import { openLocks } from '@locks/core'
import type { AdapterConfigs, Duration } from '@locks/core'
import type { MysqlOptions } from '@locks/mysql'
import type { PostgresOptions } from '@locks/postgres'
import type { RedisOptions } from '@locks/redis'
import type { RedlockOptions } from '@locks/redlock'
import type { ZookeeperOptions } from '@locks/zookeeper'
import { describe, expectTypeOf, test } from 'vitest'

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
