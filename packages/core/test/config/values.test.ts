import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { openLocks } from '../../src/index.ts'
import { loadAdapter, parseDuration } from '../../src/adapter/index.ts'
import type { LocksConfig } from '../../src/index.ts'
import { callUntyped, lockErrorOf, reasonOf } from '../support/harness.ts'

const adapter = fileURLToPath(new URL('../support/modules/recording.js', import.meta.url))
const plain = fileURLToPath(new URL('../support/modules/plain-adapter.js', import.meta.url))

/** What the module of an adapter was given. */
async function optionsOf(options: object): Promise<unknown> {
  const reason = await reasonOf(loadAdapter({ adapter, ...options }))
  return typeof reason === 'object' && reason !== null && 'options' in reason ? reason.options : reason
}

async function refusalOf(config: unknown, store?: string): Promise<string> {
  const reason = await reasonOf(callUntyped({ loadAdapter }, 'loadAdapter', config, store))
  expect(reason).toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  return reason instanceof Error ? reason.message : ''
}

describe('durations', () => {
  test.each([
    ['500ms', 500],
    ['10s', 10_000],
    ['1.5s', 1_500],
    ['0.001s', 1],
    ['2m', 120_000],
    ['1h', 3_600_000],
    ['0ms', 0],
    ['10', undefined],
    ['s', undefined],
    ['-1s', undefined],
    ['0.5ms', undefined],
    ['1e3s', undefined],
    ['10 s', undefined],
    ['10s ', undefined],
    ['', undefined],
  ])('%j is %j', (text, ms) => expect(parseDuration(text)).toBe(ms))

  test('are converted for the adapter under every key that ends in Ms, and no other', async () => {
    const nested = { list: [{ innerMs: '1m' }], name: '10s' }
    expect(await optionsOf({ claimTtlMs: '2s', waitMs: 5, nested })).toEqual({
      claimTtlMs: 2_000,
      waitMs: 5,
      nested: { list: [{ innerMs: 60_000 }], name: '10s' },
    })
  })

  test('are converted in a URL, whose scheme may be in capitals', async () => {
    expect(await optionsOf({ url: 'X+Y://u:10s@h/?aMs=10s&b=10s&cMs=7&dMs=1m' })).toEqual({
      url: 'x+y://u:10s@h/?aMs=10000&b=10s&cMs=7&dMs=60000',
    })
  })

  test('that are none are refused by key', async () => {
    expect(await refusalOf({ adapter, claimTtlMs: 'soon' })).toBe(
      "config.claimTtlMs must be whole milliseconds or a string such as '10s'",
    )
  })
})

describe('a config is JSON', () => {
  const circle: Record<string, unknown> = { adapter }
  circle['self'] = circle

  test.each([
    [
      'a function',
      { adapter, deep: { client: () => 'sesame' } },
      /^config\.deep\.client must be a JSON value/,
    ],
    ['an object of a class', { adapter, pool: new Map([['a', 'sesame']]) }, /^config\.pool must be .* class/],
    ['a bigint', { adapter, list: [1n] }, /^config\.list\[0\] must be .* bigint/],
    ['not a number', { adapter, ttl: Number.NaN }, /^config\.ttl must be/],
    ['a circle', circle, /nested too deeply/],
    ['an inherited adapter', Object.create({ adapter }), /^config must be a JSON value/],
  ])('%s is refused by its key and not shown', async (_, config, expected) => {
    const message = await refusalOf(config)
    expect(message).toMatch(expected)
    expect(message).not.toContain('sesame')
  })

  test('own keys only: a __proto__ in JSON is an unknown key, not a prototype', async () => {
    const options = await optionsOf(Object.fromEntries([['__proto__', { url: 'x' }]]))
    expect(JSON.stringify(options)).toBe('{"__proto__":{"url":"x"}}')
    expect(options).not.toHaveProperty('url')
  })

  test('a key that is undefined was not given', async () => {
    expect(await optionsOf({ prefix: undefined })).toEqual({})
  })
})

describe('defaults', () => {
  test('are those of all locks; options in code go before them', async () => {
    const config: LocksConfig = {
      adapter: `file://${plain}`,
      defaults: { ttlMs: '2s', retry: { delayMs: '1s' } },
    }
    const notGiven: object = { ttlMs: undefined }
    const all = await Promise.all(
      [{}, notGiven, { ttlMs: 60_000 }].map((options) => openLocks(config, options)),
    )
    const leases = await Promise.all(all.map((locks) => locks.lock('a').acquire()))
    expect(leases.map(({ remainingMs }) => remainingMs > 2_000)).toEqual([false, false, true])
    await Promise.all(all.map((locks) => locks.close()))
  })

  test.each([
    [{ ttlMs: 1 }, /ttlMs must be a whole number from 10 to/],
    [{ tttlMs: 5 }, /unknown key "tttlMs" in options/],
    [{ clock: {} }, /unknown key "clock" in config.defaults; known: storeTimeoutMs, ttlMs/],
    ['10s', /config.defaults must be an object/],
  ])('%j are refused by key', async (defaults, expected) => {
    const reason = await reasonOf(callUntyped({ openLocks }, 'openLocks', { adapter: plain, defaults }))
    expect(reason).toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
    expect(String(reason)).toMatch(expected)
  })
})

describe('several stores', () => {
  const stores = { main: { adapter, url: 'x:main' }, audit: { adapter, url: 'x:audit' } }
  const openedFrom = async (config: unknown, store?: string): Promise<unknown> =>
    reasonOf(callUntyped({ loadAdapter }, 'loadAdapter', config, store))

  test('the default is opened unless another one is asked for', async () => {
    const config = { stores, default: 'main' }
    expect(await openedFrom(config)).toMatchObject({ options: { url: 'x:main' } })
    expect(await openedFrom(config, 'audit')).toMatchObject({ options: { url: 'x:audit' } })
    expect(await openedFrom({ stores }, 'audit')).toMatchObject({ options: { url: 'x:audit' } })
  })

  test('the name of one is no key, though it ends in Ms', async () => {
    const config = { stores: { ...stores, crmMs: 'unheard-of:' }, default: 'main' }
    expect(await openedFrom(config)).toMatchObject({ options: { url: 'x:main' } })
    expect(await refusalOf(config, 'crmMs')).toContain('scheme unheard-of:')
  })

  test('the only one needs no default', async () => {
    expect(await openedFrom({ stores: { main: { adapter, url: 'x:main' } } })).toMatchObject({
      options: { url: 'x:main' },
    })
  })

  test('openLocks takes the name among its options', async () => {
    const config: LocksConfig = { stores: { main: 'unheard-of:', other: { adapter: `file://${plain}` } } }
    const locks = await openLocks(config, { store: 'other', ttlMs: 5_000 })
    await locks.close()
    expect((await lockErrorOf(openLocks(config, { store: 'main' }))).message).toContain('unheard-of')
  })

  test.each([
    [{ stores: {} }, undefined, /^config\.stores must be an object with at least one store/],
    [{ stores: 'redis://:sesame@host' }, undefined, /^config\.stores must be an object/],
    [{ stores }, undefined, /^config has no default; pass the option store with one of: main, audit/],
    [{ stores, default: 'mian' }, undefined, /^config\.default must be the name of a store: main, audit/],
    [{ stores, default: 'toString' }, undefined, /^config\.default must be the name of a store/],
    [{ stores, default: 'main' }, 'toString', /^config has no store "toString"; its stores: main, audit/],
    [
      { stores, defualt: 'main' },
      'main',
      /^unknown key "defualt" in config; only stores and default are allowed here; did you mean default\?$/,
    ],
    [
      { stores: { main: { url: 'x' } } },
      'main',
      /^config\.stores\.main must be a URL or an object with the key/,
    ],
    [{ stores: { main: { stores } } }, 'main', /^config\.stores\.main must be a URL or an object/],
    [{ adapter, url: 'x' }, 'main', /^the option store needs a config with stores/],
  ])('%j with %j is refused by key', async (config, store, expected) => {
    const message = await refusalOf(config, store)
    expect(message).toMatch(expected)
    expect(message).not.toContain('sesame')
  })
})
