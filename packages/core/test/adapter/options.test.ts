import { didYouMean, queryOptions, settleOptions, urlOf, wrongOption } from '@locks/core/adapter'
import type { Declaration, Duration, Given, Settled } from '@locks/core/adapter'
import { describe, expect, expectTypeOf, test } from 'vitest'

const declared = {
  adapter: '@locks/some',
  by: 'way',
  options: {
    url: { kind: 'text', must: 'be some://host', place: true },
    client: { kind: 'value', must: 'be a client', type: 'Client', place: true },
    way: { kind: 'choice', of: ['quick', 'sure'], default: 'quick', inUrl: true },
    waitMs: { kind: 'duration', range: [100, 60_000], default: 2_000, inUrl: true },
    idleMs: { kind: 'duration', range: [1_000, 9_000], zero: true, inUrl: true },
    votes: { kind: 'integer', range: [1, 9], default: 3, only: ['sure'], inUrl: true },
    size: { kind: 'integer', range: [1, 9], default: 4, notWith: 'client', inUrl: true },
    fast: { kind: 'boolean', default: false, inUrl: true },
    help: { kind: 'choice', of: ['auto', false], default: 'auto', inUrl: true },
    table: { kind: 'text', matches: '[a-z]+', must: 'be small letters', default: 'locks' },
    secret: { kind: 'text' },
    tls: { kind: 'boolean', default: false, inUrl: 'only' },
  },
} as const
type Options = typeof declared.options

const url = 'some://user:sesame@host'

function refusal(...[options, fromUrl]: [options: unknown, fromUrl?: Record<string, unknown>]): unknown {
  try {
    settleOptions(declared, options, fromUrl)
  } catch (error) {
    return error
  }
  return 'accepted'
}

describe('declared options', () => {
  test('are filled in with their defaults, and durations are milliseconds', () => {
    expect(settleOptions(declared, { url })).toEqual({
      url,
      client: undefined,
      way: 'quick',
      waitMs: 2_000,
      idleMs: undefined,
      votes: 3,
      size: 4,
      fast: false,
      help: 'auto',
      table: 'locks',
      secret: undefined,
      tls: false,
    })
    expect(settleOptions(declared, { url, waitMs: '10s', idleMs: 0 })).toMatchObject({
      waitMs: 10_000,
      idleMs: 0,
    })
  })

  test('given without a value count as not given, and a URL stands below what a program gives', () => {
    const given = { url, waitMs: undefined, size: 7, way: undefined }
    const read = settleOptions(declared, given, { waitMs: 500, size: 2, way: 'sure', votes: 5 })
    expect(read).toMatchObject({ waitMs: 500, size: 7, way: 'sure', votes: 5 })
  })

  test.each<readonly [options: unknown, message: string]>([
    [undefined, 'options must be an object'],
    [[], 'options must be an object'],
    [{ url, wiatMs: 5 }, 'did you mean waitMs?'],
    [{ url, tls: true }, 'unknown key "tls"; known: url, client'],
    [{ url, toString: 5 }, 'unknown key "toString"; known: url, client, way'],
    [JSON.parse('{ "__proto__": 1 }'), 'unknown key "__proto__"'],
    [{}, 'give exactly one of url, client'],
    [{ url, client: {} }, 'give exactly one of url, client'],
    [{ client: undefined }, 'client must be a client, not undefined'],
    [{ url: 5 }, 'url must be some://host'],
    [
      { url, waitMs: 99 },
      "waitMs must be a whole number from 100 to 60000 (milliseconds, or a text such as '500ms'",
    ],
    [{ url, waitMs: 100.5 }, 'waitMs must be'],
    [{ url, waitMs: '2sec' }, 'waitMs must be'],
    [{ url, waitMs: '2000' }, 'waitMs must be'],
    [{ url, waitMs: 0 }, 'waitMs must be'],
    [{ url, waitMs: null }, 'waitMs must be'],
    [{ url, idleMs: 1 }, 'idleMs must be 0 or a whole number from 1000 to 9000'],
    [{ url, size: '3' }, 'size must be a whole number from 1 to 9'],
    [{ url, fast: 'true' }, 'fast must be true or false'],
    [{ url, way: 'slow' }, 'way must be one of quick, sure'],
    [{ url, help: 'false' }, 'help must be one of auto, false'],
    [{ url, table: 'a\nb' }, 'table must be small letters'],
    [{ url, table: 'ab1' }, 'table must be small letters'],
    [{ url, secret: ['sesame'] }, 'secret must be a string'],
    [{ url, votes: 3 }, 'votes goes only with way sure'],
    [{ client: {}, size: 3 }, 'size does not go with client'],
  ])('%j is refused by the name of the option, without its value', (options, message) => {
    const error = refusal(options)
    expect(error).toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
    expect(String(error)).toContain(`@locks/some: `)
    expect(String(error)).toContain(message)
    expect(String(error)).not.toContain('sesame')
  })

  test('are own keys: what an object inherits is not given', () => {
    const inherited: unknown = Object.create({ waitMs: 1, url })
    expect(String(refusal(inherited))).toContain('give exactly one of')
  })

  test('that are required are asked for where they apply', () => {
    const table: Declaration = {
      adapter: '@locks/some',
      by: 'store',
      options: {
        store: { kind: 'choice', of: ['file', 'none'], default: 'none' },
        path: { kind: 'text', must: 'be a path', required: true, only: ['file'] },
      },
    }
    expect(settleOptions(table, {})).toEqual({ store: 'none', path: undefined })
    expect(() => settleOptions(table, { store: 'file' })).toThrow('@locks/some: path must be a path')
  })
})

describe('a URL', () => {
  const read = (query: string): unknown =>
    settleOptions(declared, { url }, queryOptions(declared, new URLSearchParams(query)))

  test('has options as text, by the kind of each', () => {
    expect(read('help=false')).toMatchObject({ help: false })
    expect(read('waitMs=500&way=sure&votes=5&fast=true&tls=true')).toMatchObject({
      waitMs: 500,
      votes: 5,
      fast: true,
      tls: true,
    })
    expect(read('waitMs=1.5s')).toMatchObject({ waitMs: 1_500 })
  })

  test.each([
    [
      'wiatMs=5',
      'unknown key "wiatMs" in url; known: way, waitMs, idleMs, votes, size, fast, help, tls; did you mean waitMs?',
    ],
    ['table=sesame', 'unknown key "table" in url'],
    ['fast=yes', 'fast must be true or false'],
    ['tls=1', 'tls must be true or false'],
    ['waitMs=', 'waitMs must be'],
    ['size=1e0', 'size must be'],
    ['size=-1', 'size must be'],
    ['votes=1&votes=3', 'votes stands twice in url; give it once'],
    ['votes=3&way=sure&votes=3', 'votes stands twice in url'],
    ['tls=true&tls=false', 'tls stands twice in url'],
    ['waitMs=1s&%77aitMs=2s', 'waitMs stands twice in url'],
  ])('with ?%s is refused', (query, message) => {
    expect(() => read(query)).toThrow(message)
  })

  test('is read before the rest is checked, and must be a text', () => {
    expect(urlOf(declared, { url, votes: 3 })).toBe(url)
    expect(urlOf(declared, { client: {} })).toBeUndefined()
    expect(() => urlOf(declared, { url: { sesame: 1 } })).toThrow('@locks/some: url must be some://host')
    expect(() => urlOf(declared, { ulr: url })).toThrow('did you mean url?')
  })
})

test('a wrong client is named by what it is', () => {
  expect(wrongOption(declared, 'client', new Map([['password', 'sesame']])).message).toBe(
    '@locks/some: client must be a client, not an object of class Map',
  )
})

test.each([
  ['claimTTLMs', '; did you mean claimTtlMs?'],
  ['clamTtlMs', '; did you mean claimTtlMs?'],
  ['prefixx', '; did you mean prefix?'],
  ['perfix', '; did you mean prefix?'],
  ['x', ''],
  ['something', ''],
])('of %s the nearest word is suggested, if any is near', (given, said) => {
  expect(didYouMean(given, ['claimTtlMs', 'prefix', 'url'])).toBe(said)
})

test('types follow from the declaration', () => {
  expectTypeOf<Settled<Options>>().toEqualTypeOf<{
    readonly url: string | undefined
    readonly client: unknown
    readonly way: 'quick' | 'sure'
    readonly help: 'auto' | false
    readonly waitMs: number
    readonly idleMs: number | undefined
    readonly votes: number
    readonly size: number
    readonly fast: boolean
    readonly table: string
    readonly secret: string | undefined
    readonly tls: boolean
  }>()
  expectTypeOf<'tls' extends keyof Given<Options> ? true : false>().toEqualTypeOf<false>()
  expectTypeOf<Given<Options>['waitMs']>().toEqualTypeOf<Duration | undefined>()
  expectTypeOf<Given<Options>['way']>().toEqualTypeOf<'quick' | 'sure' | undefined>()
  expectTypeOf<typeof declared>().toExtend<Declaration>()
  // @ts-expect-error no such kind
  const wrong: Declaration = { adapter: 'a', options: { x: { kind: 'number' } } }
  // @ts-expect-error an integer has a range
  const short: Declaration = { adapter: 'a', options: { x: { kind: 'integer' } } }
  expect([wrong, short]).toHaveLength(2)
})
