import { expect, test } from 'vitest'
import { errorsOf } from '../../src/adapter/errors.ts'
import { danger, ok, warning } from '../../src/adapter/findings.ts'
import { safeTtlMs } from '../../src/adapter/time.ts'

test('errors have the code of their kind, name their package and keep their cause', () => {
  const { invalid, unavailable, unsupported } = errorsOf('locks-etcd')
  const cause = new Error('refused')
  expect(unavailable('no answer', cause)).toMatchObject({
    code: 'LOCK_UNAVAILABLE',
    message: 'locks-etcd: no answer',
    cause,
  })
  expect(invalid('bad url')).toMatchObject({ code: 'LOCK_INVALID_ARGUMENT', message: 'locks-etcd: bad url' })
  expect(unsupported('no list').code).toBe('LOCK_UNSUPPORTED')
  expect('cause' in invalid('bad url')).toBe(false)
})

test('findings have the level of their name', () => {
  expect(ok('version', 'is 8')).toEqual({ check: 'version', level: 'ok', message: 'is 8' })
  const rest = { check: 'version', message: 'is 1', advice: 'update' }
  expect(warning('version', 'is 1', 'update')).toEqual({ ...rest, level: 'warning' })
  expect(danger('version', 'is 1', 'update')).toEqual({ ...rest, level: 'danger' })
})

test('of a ttl 1 % and 2 ms are not relied on', () => {
  expect(safeTtlMs(10_000)).toBe(9_898)
})
