import { describe, expect, test } from 'vitest'
import { createLocks } from '../../src/index.ts'
import { harness, lockErrorOf } from '../support/harness.ts'

const me = `this process (pid ${process.pid}`

describe('a time-out error', () => {
  test('names host, process, label and owner of another holder, on one line', async () => {
    const { clock, store, locks } = harness()
    const metadata = { host: 'web-1', pid: 12, label: 'nightly\nreport' }
    const holder = { owner: 'stranger', fence: 1n, metadata }
    const factory: typeof store.factory = (host) => ({
      ...store.factory(host),
      attempt: async () => ({ busy: true, holder }),
    })
    const told = createLocks(factory, { clock })
    const { message } = await lockErrorOf(told.lock('a').acquire({ waitMs: 0 }))
    expect(message).toBe('lock "a" is held by "stranger" (pid 12 on web-1, label "nightly\\nreport")')
    store.seize('b')
    expect((await lockErrorOf(locks.lock('b').acquire({ waitMs: 0 }))).message).toBe(
      'lock "b" is held by "stranger"',
    )
  })

  test('says that this process holds the lock, and how to re-enter', async () => {
    const { clock, locks } = harness()
    const lock = locks.lock('a', { label: 'import' })
    const lease = await lock.acquire({ owner: 'one' })
    const waiting = lockErrorOf(lock.acquire({ waitMs: 200 }))
    await clock.advance(200)
    expect((await waiting).message).toBe(
      `lock "a" is held by ${me}, label "import", owner "one") after waiting 200 ms: ` +
        'if the same task acquired it before, pass the same `owner` to both to re-enter',
    )
    await lease.release()
    expect(await lock.tryAcquire()).not.toBeNull()
  })

  test('knows when the same task holds it: inside with, under another owner', async () => {
    const { locks } = harness()
    const error = await locks.with('a', { owner: 'one' }, () =>
      lockErrorOf(locks.lock('a').acquire({ owner: 'two', waitMs: 0 })),
    )
    expect(error.message).toContain(`${me}, owner "one")`)
    expect(error.message).toContain('the same task acquired it before; pass the same `owner` to both')
  })

  test('knows when it holds it through another client of this process', async () => {
    const { clock, store, locks } = harness({ store: { busy: {} } })
    const other = createLocks(
      (host) => ({
        ...store.factory(host),
        attempt: async ({ name }) => ({
          busy: true,
          holder: (await locks.inspect(name)).holder ?? { owner: '' },
        }),
      }),
      { clock },
    )
    const outside = await locks.with('a', async () => lockErrorOf(other.lock('a').acquire({ waitMs: 0 })))
    expect(outside.message).toContain(
      'the same task acquired it before, through another client; use one client',
    )
  })

  test('does not take a holder for itself by its process id alone', async () => {
    const { clock, store, locks } = harness()
    await locks.lock('a').acquire({ owner: 'one' })
    const metadata = { host: 'web-1', pid: process.pid }
    const other = createLocks(
      (host) => ({
        ...store.factory(host),
        attempt: async () => ({ busy: true, holder: { owner: 'one', fence: 99n, metadata } }),
      }),
      { clock },
    )
    const { message } = await lockErrorOf(other.lock('a').acquire({ waitMs: 0 }))
    expect(message).toBe(`lock "a" is held by "one" (pid ${process.pid} on web-1)`)
  })
})
