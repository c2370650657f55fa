import { isLockError } from '@locks/core'
import { faultsOf, fencePieces, readHolder, wholeNumber } from '@locks/sql'
import { writeHolder } from '@locks/sql'
import { expect, test } from 'vitest'

const faults = faultsOf({
  adapter: '@locks/some',
  server: 'SomeSQL',
  codesOf: (error) =>
    error instanceof Error && 'errno' in error ? { code: 'ER_X', errno: Number(error.errno) } : {},
  adviceOn: (error) => (error instanceof Error && error.message === 'no table' ? 'migrate' : undefined),
  hintOn: (error) => (error instanceof Error && error.message === 'read-only' ? 'wait' : undefined),
})

test('a holder is read as it was written, and is free of NUL in between', () => {
  const metadata = { host: 'h', pid: 7, label: '"\0' }
  const text = writeHolder({ owner: 'o\0', metadata })
  expect(text).not.toContain('\0')
  expect(readHolder(text, '12', '1000')).toEqual({ owner: 'o\0', metadata, fence: 12n, since: 1000 })
  expect(readHolder(null, '12', null)).toBeUndefined()
  expect(readHolder('{"owner":"o","metadata":{}}', null, undefined)).toEqual({ owner: 'o' })
  for (const foreign of ['', 'null', '{', '[]', '{"owner":1}'])
    expect(readHolder(foreign, '1', null)).toEqual({ owner: 'unknown', fence: 1n })
})

test('errors keep their codes and lose what else the driver put there', () => {
  const raw = Object.assign(new Error('failed'), { errno: 5, sql: 'secret', parameters: ['secret'] })
  const error = faults.toLockError(raw)
  expect(isLockError(error, 'LOCK_UNAVAILABLE')).toBe(true)
  expect(error.message).toBe('SomeSQL failed: failed (ER_X)')
  expect(error.cause).toMatchObject({ message: 'failed', errno: 5 })
  expect(JSON.stringify(error.cause)).not.toContain('secret')
  expect(faults.toLockError(error)).toBe(error)
  expect(faults.toLockError(new Error('no table'))).toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
    message: '@locks/some: migrate: no table',
  })
  expect(faults.toLockError(new Error('read-only'))).toMatchObject({
    code: 'LOCK_UNAVAILABLE',
    message: 'SomeSQL failed; wait: read-only',
  })
})

test('numbers, columns and fences are what they should be, or refused', () => {
  expect(wholeNumber(faults, 'n', 3, [1, 3])).toBe(3)
  expect(fencePieces(faults, 7n, 'fence', (name) => `[${name}]`, '?')).toEqual({
    set: '[fence] = ?',
    where: '[fence] <= ?',
    value: '7',
  })
  const refused: (() => unknown)[] = [
    ...['', '1a', 'a b', 'a"', 'a'.repeat(64)].map(
      (name) => () => fencePieces(faults, 7n, name, String, '?'),
    ),
    ...[0, 4, 1.5, NaN, '1', null].map((n) => () => wholeNumber(faults, 'n', n, [1, 3])),
    ...[-1n, 2n ** 63n].map((fence) => () => fencePieces(faults, fence, 'fence', String, '?')),
  ]
  for (const act of refused) expect(act).toThrow(expect.objectContaining({ code: 'LOCK_INVALID_ARGUMENT' }))
})
