import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { openLocks } from '../../src/index.ts'
import { loadAdapter } from '../../src/adapter/index.ts'
import { callUntyped, codeOf, lockErrorOf, reasonOf } from '../support/harness.ts'

const config = { loadAdapter, openLocks }

function modulePath(name: string): string {
  return fileURLToPath(new URL(`../support/modules/${name}`, import.meta.url))
}

describe('a config', () => {
  test.each([5, null, {}, [], { adapter: 5 }, { url: 'memory:' }, true, '', 'memory', '//host'])(
    '%j is refused',
    async (value) => {
      expect(codeOf(await reasonOf(callUntyped(config, 'loadAdapter', value)))).toBe('LOCK_INVALID_ARGUMENT')
    },
  )

  test('with an unknown scheme is refused, with those that are known and without its password', async () => {
    const error = await lockErrorOf(openLocks('carrier-pigeon://user:hunter2@roof:1/loft'))
    expect(error.code).toBe('LOCK_INVALID_ARGUMENT')
    expect(error.message).toContain('carrier-pigeon')
    expect(error.message).toContain('memory')
    expect(String(error.stack)).not.toContain('hunter2')
  })

  test('with a URL where the adapter should be does not show its password', async () => {
    const error = await lockErrorOf(loadAdapter({ adapter: 'redis://user:hunter2@host:6379' }))
    expect(error.code).toBe('LOCK_INVALID_ARGUMENT')
    expect(error.message).not.toContain('hunter2')
  })

  test('with a package that is not installed says how to get it', async () => {
    const error = await lockErrorOf(loadAdapter({ adapter: 'locks-nowhere', url: 'x://user:hunter2@host' }))
    expect(error).toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
    expect(error.message).toContain('is not installed: npm install locks-nowhere')
    expect(error.message).not.toContain('hunter2')
  })

  test('with an unknown package of our scope lists the known ones and does not suggest to install it', async () => {
    const error = await lockErrorOf(loadAdapter({ adapter: '@locks/redsi' }))
    expect(error.code).toBe('LOCK_INVALID_ARGUMENT')
    expect(error.message).toContain('ours are: @locks/memory, @locks/cas, @locks/redis,')
    expect(error.message).not.toContain('npm install')
  })

  test('with a path to nothing is refused, and not to be installed', async () => {
    const error = await lockErrorOf(openLocks({ adapter: './not/here.js' }))
    expect(error.code).toBe('LOCK_INVALID_ARGUMENT')
    expect(error.message).toMatch(
      /cannot find adapter ".\/not\/here.js": there is no such module in or above \//,
    )
  })

  test('with a module that is not an adapter is refused', async () => {
    const error = await lockErrorOf(loadAdapter({ adapter: modulePath('no-adapter.js') }))
    expect(error.code).toBe('LOCK_INVALID_ARGUMENT')
    expect(error.message).toContain('fromConfig')
  })

  test('with an adapter whose own client is missing names that, not the adapter', async () => {
    const reason = await reasonOf(loadAdapter({ adapter: modulePath('broken-peer.js') }))
    expect(String(reason)).toContain('a-peer-that-nobody-installed')
    expect(String(reason)).not.toContain('npm install /')
  })

  test('passes everything but its adapter key on to the module', async () => {
    const reason = await reasonOf(
      loadAdapter({ adapter: modulePath('recording.js'), ttl: 5, deep: { a: 1 } }),
    )
    expect(reason).toMatchObject({ message: 'recorded', options: { ttl: 5, deep: { a: 1 } } })
  })

  test('comes from LOCKS_URL when none is given', async () => {
    const before = process.env['LOCKS_URL']
    onTestFinished(() => {
      if (before === undefined) delete process.env['LOCKS_URL']
      else process.env['LOCKS_URL'] = before
    })
    process.env['LOCKS_URL'] = 'semaphore-flags:hunter2'
    const error = await lockErrorOf(openLocks())
    expect(error.message).toContain('semaphore-flags')
    expect(error.message).not.toContain('hunter2')
    delete process.env['LOCKS_URL']
    expect((await lockErrorOf(openLocks())).message).toContain('LOCKS_URL')
  })
})
