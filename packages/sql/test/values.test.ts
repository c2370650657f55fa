import { isLockError } from '@locks/core'
import { sqlErrors, fencePieces, holderFrom, wholeNumber } from '@locks/sql'
import { writeHolder } from '@locks/core/adapter'
import { expect, test } from 'vitest'

const errors = sqlErrors({
  adapter: '@locks/some',
  server: 'SomeSQL',
  codesOf: (error) => ('errno' in error ? { code: 'ER_X', errno: Number(error.errno) } : {}),
  advice: new Map([[1, 'migrate']]),
  ifItLasts: new Map([[2, 'wait']]),
  transient: new Set([5]),
})

const coded = (message: string, errno: number): Error => Object.assign(new Error(message), { errno })

test('a holder is read as it was written, also in the form of earlier versions', () => {
  const metadata = { host: 'h', pid: 7, label: '"\0' }
  const text = writeHolder({ owner: 'o\0', metadata })
  expect(text).not.toContain('\0')
  expect(holderFrom(text, '12', '1000')).toEqual({ owner: 'o\0', metadata, fence: 12n, since: 1000 })
  const before = JSON.stringify({ owner: 'o', metadata: { host: 'h', pid: 7 } })
  expect(holderFrom(before, '12', null)).toEqual({ owner: 'o', metadata: { host: 'h', pid: 7 }, fence: 12n })
  expect(holderFrom(null, '12', null)).toBeUndefined()
  expect(holderFrom('{"owner":"o","metadata":{}}', null, undefined)).toEqual({ owner: 'o' })
  for (const foreign of ['', 'null', '{', '[]', '{"owner":1}'])
    expect(holderFrom(foreign, '1', null)).toEqual({ owner: 'unknown', fence: 1n })
})

test('errors keep their codes and drop everything else of the driver', () => {
  const raw = Object.assign(new Error('failed'), { errno: 5, sql: 'secret', parameters: ['secret'] })
  const error = errors.toLockError(raw)
  expect(isLockError(error, 'LOCK_UNAVAILABLE')).toBe(true)
  expect(error.message).toBe('SomeSQL failed: failed (ER_X)')
  expect(error.cause).toMatchObject({ message: 'failed', errno: 5 })
  expect(JSON.stringify(error.cause)).not.toContain('secret')
  expect(errors.toLockError(error)).toBe(error)
  expect([errors.codeOf(raw), errors.codeOf(error), errors.codeOf('text')]).toEqual([5, 5, undefined])
  expect(errors.toLockError(coded('no table', 1))).toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
    message: '@locks/some: migrate: no table (ER_X)',
  })
  expect(errors.toLockError(coded('read-only', 2))).toMatchObject({
    code: 'LOCK_UNAVAILABLE',
    message: 'SomeSQL failed; wait: read-only (ER_X)',
  })
  expect([raw, error, coded('read-only', 2), new Error('failed')].map(errors.isTransient)).toEqual([
    true,
    true,
    false,
    false,
  ])
})

test('numbers, columns and fences are valid or refused', () => {
  expect(wholeNumber(errors, 'n', 3, [1, 3])).toBe(3)
  expect(fencePieces(errors, 7n, 'fence', (name) => `[${name}]`, '?')).toEqual({
    set: '[fence] = ?',
    where: '[fence] <= ?',
    value: '7',
  })
  const refused: (() => unknown)[] = [
    ...['', '1a', 'a b', 'a"', 'a'.repeat(64)].map(
      (name) => () => fencePieces(errors, 7n, name, String, '?'),
    ),
    ...[0, 4, 1.5, NaN, '1', null].map((n) => () => wholeNumber(errors, 'n', n, [1, 3])),
    ...[-1n, 2n ** 63n].map((fence) => () => fencePieces(errors, fence, 'fence', String, '?')),
  ]
  for (const act of refused) expect(act).toThrow(expect.objectContaining({ code: 'LOCK_INVALID_ARGUMENT' }))
})
