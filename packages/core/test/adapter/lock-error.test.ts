import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { quote, storeError } from '../../src/adapter/lock-error.ts'
import { isLockError, LockError } from '../../src/index.ts'

/** A second copy of the built package, with its own classes. */
async function anotherCopy(): Promise<unknown> {
  const url = new URL('../../dist/adapter/lock-error.js?copy', import.meta.url)
  const module: unknown = await import(/* @vite-ignore */ url.href)
  return module
}

function newForeignError(module: unknown): unknown {
  if (typeof module !== 'object' || module === null || !('LockError' in module))
    throw new Error('not the package')
  const { LockError: Foreign } = module
  if (typeof Foreign !== 'function') throw new Error('no class')
  const error: unknown = Reflect.construct(Foreign, ['LOCK_LOST', 'elsewhere'])
  return error
}

describe('LockError', () => {
  test('of another copy of the package is one as well', async () => {
    const error = newForeignError(await anotherCopy())
    expect(error instanceof LockError).toBe(false)
    expect(isLockError(error)).toBe(true)
    expect(isLockError(error, 'LOCK_LOST')).toBe(true)
    expect(isLockError(error, 'LOCK_TIMEOUT')).toBe(false)
    expect(storeError('a', error, 0)).toBe(error)
  })

  test.each([undefined, null, 'LOCK_LOST', 5, new Error('x'), { code: 'LOCK_LOST' }, Object.create(null)])(
    '%s is none',
    (value) => {
      expect(isLockError(value)).toBe(false)
    },
  )

  test('carries code, lock, holder and cause, and only those that are known', () => {
    const cause = new Error('why')
    const full = new LockError('LOCK_TIMEOUT', 'm', { cause, lock: 'a', holder: { owner: 'o' } })
    expect(full).toMatchObject({
      name: 'LockError',
      code: 'LOCK_TIMEOUT',
      lock: 'a',
      holder: { owner: 'o' },
      cause,
    })
    expect(Object.keys(new LockError('LOCK_LOST', 'm'))).toEqual(['code'])
    expect(full).toBeInstanceOf(Error)
    expect(inspect(full)).toContain('LockError')
  })

  test('wraps anything that a store threw as an outage', () => {
    for (const thrown of [new Error('down'), 'down', { toString: () => 'down' }])
      expect(storeError('a', thrown, 0)).toMatchObject({ code: 'LOCK_UNAVAILABLE', lock: 'a', cause: thrown })
    for (const odd of [undefined, null, Object.create(null), Symbol('x')])
      expect(storeError('a', odd, 0).code).toBe('LOCK_UNAVAILABLE')
  })

  test('of a silent store says how long its answer was waited for', () => {
    const silent = storeError('a', undefined, 5_000.4)
    expect(silent).toMatchObject({ code: 'LOCK_UNAVAILABLE', waitedMs: 5_000.4 })
    expect(silent.message).toMatch(/did not answer for lock "a" within 5000 ms/)
  })

  test('quotes a name on one short line of well-formed text', () => {
    expect(quote('a"b\n\u001b')).toBe('"a\\"b\\n\\u001b"')
    const long = quote(`${'x'.repeat(74)}💥${'y'.repeat(900)}`)
    expect(long.length).toBeLessThanOrEqual(80)
    expect(Buffer.from(long).toString()).toBe(long)
  })
})
