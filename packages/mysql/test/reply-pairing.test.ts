import { isLockError } from '@locks/core'
import { describe, expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { startShiftingProxy } from '../../../conformance/test-kit/sql-shifting-proxy.ts'
import { open, startServer } from './setup.ts'

const server = await startServer({ 'max-connections': 200 })

describe.each(['row', 'named'])('%s', (strategy) => {
  const session = { strategy, sessionTtlMs: scaled(10_000) }

  test('the reply to another statement never is a grant', async () => {
    const proxy = await startShiftingProxy(server)
    const holder = open({ url: server.url, ...session })
    const locks = open({ url: `mysql://locks@127.0.0.1:${proxy.port}/locks`, ...session })
    // Connections are open and statements prepared.
    for (let n = 0; n < 3; n += 1) await locks.with('mine', () => undefined)
    const theirs = await holder.lock('theirs').acquire()
    for (let round = 0; round < 5; round += 1) {
      proxy.record()
      await locks.with('mine', () => undefined)
      proxy.insert()
      const got = await locks
        .lock('theirs')
        .tryAcquire()
        .catch((error: unknown) => error)
      expect(got === null || isLockError(got, 'LOCK_UNAVAILABLE')).toBe(true)
    }
    expect(proxy.inserted).toBeGreaterThan(0)
    await theirs.release()
  })

  test('the reply to an earlier probe does not renew, nor does it release', async () => {
    const proxy = await startShiftingProxy(server)
    const locks = open({ url: `mysql://locks@127.0.0.1:${proxy.port}/locks`, ...session })
    const lease = await locks.lock('probed').acquire()
    await lease.extend()
    proxy.record()
    await lease.extend()
    proxy.insert()
    await expect(lease.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' })
    await locks.lock('probed').acquire({ waitMs: scaled(5_000) })
  })
})
