import { isLockError } from '@locks/core'
import { loadAdapter, schemes } from '@locks/core/adapter'
import { describe, expect, test } from 'vitest'
import { packagesFor } from '../../packages/core/src/config/schemes.ts'
import { publicPackages } from '../../scripts/lib/packages.mjs'

/** A URL of each scheme as the documentation has it. None of them is connected to. */
const urls: ReadonlyMap<string, string> = new Map([
  ['memory', 'memory:'],
  ['file', 'file:/var/lock/app'],
  ['tair', 'tair://user:sesame@host:6379'],
  ['redis', 'redis://user:sesame@host:6379/1?claimTtlMs=2s'],
  ['rediss', 'rediss://host'],
  ['redis+sentinel', 'redis+sentinel://a:26379,b:26379/primary'],
  ['redis+cluster', 'redis+cluster://a:7000,b:7000'],
  ['redlock', 'redlock:redis://a:6379,redis://b:6379,rediss://user:sesame@c:6379?quorum=2&nodeTimeoutMs=2s'],
  ['zookeeper', 'zookeeper://a:2181,b:2181,c:2181/chroot?sessionTimeoutMs=10s'],
  ['postgres', 'postgres://user:sesame@host/db?strategy=row&sessionTtlMs=10s'],
  ['postgresql', 'postgresql://host/db?strategy=unique-key'],
  ['mysql', 'mysql://user:sesame@host/db?strategy=named&sessionTtlMs=10s'],
  ['mariadb', 'mariadb://host/db?strategy=row'],
])

async function refusalOf(name: string, options: object): Promise<unknown> {
  const module: unknown = await import(name)
  if (!isAdapterModule(module)) throw new Error(`${name} exports no fromConfig`)
  try {
    await module.fromConfig(options)
    return undefined
  } catch (error) {
    return error
  }
}

function isAdapterModule(module: unknown): module is { fromConfig(options: object): unknown } {
  return typeof module === 'object' && module !== null && 'fromConfig' in module
}

/** Packages of this repository that are no adapters. */
const others = new Set(['@locks/core', '@locks/sql', '@locks/cli'])
const adapters = (await publicPackages()).filter(({ name }) => !others.has(name))

/** Of several clients one is enough, so none is required: the first is named. */
const oneOf = new Map([['@locks/postgres', ['pg']]])

describe('the registry of schemes', () => {
  test('has an example of every scheme', () => {
    expect([...urls.keys()].toSorted()).toEqual([...schemes.keys()].toSorted())
  })

  test('names every adapter that exists, and no other', () => {
    expect([...new Set(schemes.values())].toSorted()).toEqual(adapters.map(({ name }) => name).toSorted())
  })

  test.each(adapters)('knows what $name needs beside it', ({ name, clients }) => {
    expect(packagesFor(name)).toBe([name, ...(oneOf.get(name) ?? clients)].join(' '))
  })

  test.each([...schemes])('%s: is served by %s', async (scheme) => {
    expect(await loadAdapter(urls.get(scheme))).toBeTypeOf('function')
  })

  test.each(adapters)(
    '$name serves its own schemes and refuses all others, by key and without a password',
    async ({ name }) => {
      for (const [scheme, url] of urls) {
        const refused = await refusalOf(name, { url })
        if (schemes.get(scheme) === name) expect(refused).toBeUndefined()
        else {
          expect(isLockError(refused, 'LOCK_INVALID_ARGUMENT'), `${name} on ${scheme}:`).toBe(true)
          expect(String(refused)).toMatch(/url/)
          expect(String(refused)).not.toContain('sesame')
        }
      }
    },
  )
})

/** Options of adapters that are lengths of time, with what else each needs. */
const durations: readonly (readonly [adapter: string, key: string, rest: object])[] = [
  ['@locks/redis', 'claimTtlMs', { url: 'redis://h' }],
  ['@locks/redis', 'waitForReplicasMs', { url: 'redis://h' }],
  ['@locks/redlock', 'nodeTimeoutMs', { url: 'redlock:redis://a,redis://b,redis://c' }],
  ['@locks/zookeeper', 'sessionTimeoutMs', { servers: 'h:2181' }],
  ['@locks/postgres', 'claimTtlMs', { url: 'postgres://h/db' }],
  ['@locks/postgres', 'sessionTtlMs', { url: 'postgres://h/db', strategy: 'row' }],
  ['@locks/mysql', 'sessionTtlMs', { url: 'mysql://h/db', strategy: 'named' }],
]

test.each(durations)(
  '%s takes %s as a text in code too, and refuses a wrong unit',
  async (name, key, rest) => {
    for (const good of [2_000, '2s', '2000ms'])
      expect(await refusalOf(name, { ...rest, [key]: good })).toBeUndefined()
    for (const bad of ['2sec', '2 s', '2h', '0s', '-2s', 's', '']) {
      const error = await refusalOf(name, { ...rest, [key]: bad })
      expect(isLockError(error, 'LOCK_INVALID_ARGUMENT') && error.message, bad).toContain(key)
    }
  },
)

test.each([
  ['@locks/redis', 'redis://h?prefix=a&prefix=b', 'prefix'],
  ['@locks/redis', 'redis://h?tls=true&tls=false', 'tls'],
  ['@locks/redlock', 'redlock://a,b,c?quorum=2&quorum=3', 'quorum'],
  ['@locks/zookeeper', 'zookeeper://h?basePath=/a&basePath=/b', 'basePath'],
  ['@locks/postgres', 'postgres://h/db?strategy=row&strategy=advisory', 'strategy'],
  ['@locks/postgres', 'postgres://h/db?sslmode=require&sslmode=disable', 'sslmode'],
  ['@locks/mysql', 'mysql://h/db?strategy=row&strategy=named', 'strategy'],
  ['@locks/mysql', 'mysql://h/db?ssl=true&ssl=false', 'ssl'],
  ['@locks/cas', 'tair://h?prefix=a&prefix=b', 'prefix'],
])('%s refuses %s: one of the two would be ignored', async (name, url, key) => {
  const refused = await refusalOf(name, { url })
  expect(isLockError(refused, 'LOCK_INVALID_ARGUMENT') && refused.message).toContain(
    `${key} stands twice in url; give it once`,
  )
})
