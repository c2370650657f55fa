import { redlock } from '@locks/redlock'
import { expect, test } from 'vitest'
import { settle } from '../src/options.ts'

const urls = (url: string): readonly (string | undefined)[] => settle({ url }).nodes.map((node) => node.url)

test.each([
  ['redlock:redis://a?prefix=x,redis://b?prefix=x', 'the second server would be part of the prefix'],
  ['redlock:redis://a?prefix=x,redis://b?prefix=x,redis://c?prefix=x', 'the same of three'],
  ['redlock:redis://a?quorum=1,rediss://b', 'a server behind an option'],
  ['redlock://a?prefix=x,b?prefix=x', 'addresses alone'],
  ['redlock://a,b?prefix=x,c', 'an address behind an option'],
  ['redlock:redis://a,redis://b?prefix=x?quorum=2', 'two question marks'],
])('%s is refused: %s', (url) => {
  const form =
    /options .* once, behind the last server: redlock:redis:\/\/a,redis:\/\/b,redis:\/\/c\?prefix=x/
  expect(() => redlock({ url })).toThrow(form)
  expect(() => redlock({ url })).toThrow(expect.objectContaining({ code: 'LOCK_INVALID_ARGUMENT' }))
})

test('options behind the last server are for all of them', () => {
  expect(urls('redlock:redis://a,redis://b,redis://c?prefix=x')).toEqual([
    'redis://a',
    'redis://b',
    'redis://c',
  ])
  expect(settle({ url: 'redlock:redis://a,redis://b,redis://c?prefix=x' })).toMatchObject({ quorum: 2 })
  expect(settle({ url: 'redlock://a,b,c?prefix=x%2Cy%3F' }).nodes[0]?.prefix).toBe('x,y?')
})
