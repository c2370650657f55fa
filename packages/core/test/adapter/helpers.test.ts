import {
  batchesOf,
  danger,
  ok,
  once,
  settleOptions,
  urlDecoded,
  urlParts,
  warning,
  worstFindings,
} from '@locks/core/adapter'
import { describe, expect, expectTypeOf, test } from 'vitest'

describe('once', () => {
  test('does its work once for all callers', async () => {
    let calls = 0
    const work = once(async (by: number) => (calls += by))
    expect(await Promise.all([work(2), work(3)])).toEqual([2, 2])
    expect(await work(4)).toBe(2)
  })

  test('does it again after a failure', async () => {
    let calls = 0
    const work = once(async () => {
      calls += 1
      if (calls === 1) throw new Error('not yet')
      return calls
    })
    const both = [work(), work()]
    await expect(both[0]).rejects.toThrow('not yet')
    await expect(both[1]).rejects.toThrow('not yet')
    expect(await work()).toBe(2)
    expect(await work()).toBe(2)
  })
})

test('a list comes in parts, in order, and an empty one not at all', () => {
  expect([...batchesOf([1, 2, 3, 4, 5], 2)]).toEqual([[1, 2], [3, 4], [5]])
  expect([...batchesOf([], 2)]).toEqual([])
})

describe('of several servers', () => {
  test('the worst finding of each check counts, with all servers that have it', () => {
    const [fine, slow, bad] = [ok('a', 'fine'), warning('a', 'slow', 'mend'), danger('b', 'bad', 'mend')]
    const other = ok('b', 'other')
    expect(worstFindings([[fine, bad], [slow, other], [slow]])).toEqual([
      { finding: slow, servers: [1, 2] },
      { finding: bad, servers: [0] },
    ])
  })
})

const declared = {
  adapter: '@locks/some',
  options: {
    url: { kind: 'text', must: 'be some://host' },
    call: {
      kind: 'value',
      must: 'be a function',
      type: '() => void',
      is: (value: unknown): value is () => void => typeof value === 'function',
    },
  },
} as const

describe('a URL', () => {
  test('is split at its hosts, and its scheme is in lower case', () => {
    const { query, ...parts } = urlParts(declared, 'Some+x://u:p%40@a:1,b:2/path/x?waitMs=2s&n=1')
    expect(parts).toEqual({ scheme: 'some+x', user: 'u:p%40', hosts: ['a:1', 'b:2'], path: '/path/x' })
    expect([...query]).toEqual([
      ['waitMs', '2000'],
      ['n', '1'],
    ])
    expect(urlParts(declared, 'some://host')).toMatchObject({ user: undefined, path: '' })
  })

  test.each(['some://', 'some:host', 'some://u:p@', 'some://u@v@host', 'some://host#part'])(
    '%s is refused without showing it',
    (url) => {
      expect(() => urlParts(declared, url)).toThrow('@locks/some: url must be some://host')
    },
  )

  test('is decoded, and refused where that fails', () => {
    expect(urlDecoded(declared, 'p%40')).toBe('p@')
    expect(() => urlDecoded(declared, 'p%')).toThrow('@locks/some: invalid percent-encoding in url')
  })
})

test('a value is checked by the function of its row, which also gives its type', () => {
  const call = (): void => undefined
  const read = settleOptions(declared, { call })
  expect(read.call).toBe(call)
  expectTypeOf(read.call).toEqualTypeOf<(() => void) | undefined>()
  expect(() => settleOptions(declared, { call: ['secret'] })).toThrow(
    '@locks/some: call must be a function, not a list',
  )
})
