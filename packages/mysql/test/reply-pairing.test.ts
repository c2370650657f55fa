import { isLockError } from '@locks/core'
import { describe, expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { startShiftingProxy } from '../../../conformance/test-kit/sql-shifting-proxy.ts'
import { lagging, NOTHING_CHANGED } from './lagging-proxy.ts'
import { bare, open, startServer } from './setup.ts'

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
  test.each(['break', 'inspect', 'list'])(
    'a reply of nothing to %s does not make a held lock free',
    async (act) => {
      const { url, insert } = await lagging(server)
      const holder = bare({ url: server.url, ...session })
      const { adapter } = bare({ url, ...session, poolSize: 1 })
      const { name, fence } = await holder.take(holder.request(`nothing to ${act}`))
      const run = async (of: string): Promise<unknown> => {
        if (act === 'break') return adapter.break?.(of, { owner: 'unknown', fence })
        return act === 'list' ? adapter.list?.(10) : adapter.inspect(of)
      }
      await run('another')
      insert(NOTHING_CHANGED)
      await expect(run(name)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    },
  )

  test('nor does one to a release, or to a renewal', async () => {
    for (const act of ['release', 'renew'] as const) {
      const { url, insert } = await lagging(server)
      const { adapter, take, request, lost } = bare({ url, ...session })
      const grant = await take(request(`nothing to ${act}`))
      const renewal = { grant, ttlMs: session.sessionTtlMs, lockDelayMs: 0 }
      await adapter.renew([renewal])
      insert(NOTHING_CHANGED)
      if (act === 'release')
        await expect(adapter.release(grant)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
      else expect(await adapter.renew([renewal])).toEqual(['lost'])
      expect(lost).toEqual(act === 'release' ? [] : [grant.attemptId])
    }
  })
})
