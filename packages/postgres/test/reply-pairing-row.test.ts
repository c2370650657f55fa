import { isLockError } from '@locks/core'
import { expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { startShiftingProxy } from '../../../conformance/test-kit/sql-shifting-proxy.ts'
import { lagging, NO_ROW } from './lagging-proxy.ts'
import { bare, open, startServer } from './setup.ts'

const server = await startServer({ max_connections: 60 })
const row = { strategy: 'row', sessionTtlMs: scaled(10_000) }

test('row: the reply to another statement never is a grant', async () => {
  const proxy = await startShiftingProxy(server)
  const holder = open({ url: server.url, ...row })
  const locks = open({ url: `postgres://postgres@127.0.0.1:${proxy.port}/postgres`, ...row })
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

test('row: the reply to an earlier probe does not renew', async () => {
  const proxy = await startShiftingProxy(server)
  const locks = open({ url: `postgres://postgres@127.0.0.1:${proxy.port}/postgres`, ...row })
  const lease = await locks.lock('probed').acquire()
  await lease.extend()
  proxy.record()
  await lease.extend()
  proxy.insert()
  await expect(lease.extend()).rejects.toMatchObject({ code: 'LOCK_LOST' })
  await locks.lock('probed').acquire({ waitMs: scaled(5_000) })
})

test.each(['break', 'inspect', 'list'])(
  'row: a reply of nothing to %s does not make a held lock free',
  async (act) => {
    const { url, insert } = await lagging(server)
    const holder = bare({ url: server.url, ...row })
    const { adapter } = bare({ url, ...row, poolSize: 1 })
    const { name, fence } = await holder.take(holder.request(`nothing to ${act}`))
    const run = async (of: string): Promise<unknown> => {
      if (act === 'break') return adapter.break?.(of, { owner: 'unknown', fence })
      return act === 'list' ? adapter.list?.(10) : adapter.inspect(of)
    }
    await run('another')
    insert(NO_ROW)
    await expect(run(name)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  },
)
