import type { Grant } from '@locks/core/adapter'
import { createPool } from 'mysql2/promise'
import { describe, expect, onTestFinished, test } from 'vitest'
import { DEADLOCK, lagging, NOTHING_CHANGED } from './lagging-proxy.ts'
import { bare, startServer } from './setup.ts'

const server = await startServer()
const unknown = { code: 'LOCK_UNAVAILABLE' }

describe.each(['url', 'pool'])('by %s', (by) => {
  async function client(connections = 1) {
    const { url, ...proxy } = await lagging(server)
    const pool = createPool({ uri: url, connectionLimit: connections })
    onTestFinished(() => pool.end())
    return { ...bare(by === 'url' ? { url, poolSize: connections } : { pool }), ...proxy }
  }

  test('the answer to one attempt is not taken for that to another', async () => {
    const { adapter, request, take, lag, ended } = await client()
    const holder = bare({ url: server.url })
    const name = `attempt by ${by}`
    await holder.take(holder.request(name))
    await take(request(`${name}, free`))
    lag()
    await expect(adapter.attempt(request(name))).rejects.toMatchObject(unknown)
    await expect.poll(ended).toBe(1)
    expect(await holder.adapter.inspect(name)).toMatchObject({ held: true })
  })

  test.each(['renew', 'release', 'adopt'])('nor that to one %s for that to another', async (act) => {
    const { adapter, request, take, lag, ended } = await client()
    const [first, second] = [
      await take(request(`${act} 1 by ${by}`)),
      await take(request(`${act} 2 by ${by}`)),
    ]
    const run = (grant: Grant): Promise<unknown> => {
      if (act === 'renew') return adapter.renew([{ grant, ttlMs: 30_000, lockDelayMs: 0 }])
      if (act === 'release') return adapter.release(grant)
      return adapter.adopt?.(grant, request(grant.name)) ?? Promise.reject(new Error('no adopt'))
    }
    await run(first)
    lag()
    await expect(run(second)).rejects.toMatchObject(unknown)
    await expect.poll(ended).toBe(1)
  })
  test.each(['renew', 'release', 'adopt', 'break', 'inspect', 'list'])(
    'nor is a lock free because of a reply of nothing to %s',
    async (act) => {
      const { adapter, request, take, insert, ended } = await client(2)
      const run = async (grant: Grant): Promise<unknown> => {
        const { name, fence } = grant
        if (act === 'renew') return adapter.renew([{ grant, ttlMs: 30_000, lockDelayMs: 0 }])
        if (act === 'release') return adapter.release(grant)
        if (act === 'adopt') return adapter.adopt?.(grant, request(name))
        if (act === 'break') return adapter.break?.(name, { owner: 'unknown', fence })
        return act === 'list' ? adapter.list?.(10) : adapter.inspect(name)
      }
      // Both connections are open.
      await Promise.all([1, 2].map(async (n) => run(await take(request(`${act} ${n} by ${by}, before`)))))
      const grant = await take(request(`${act} by ${by}, held`))
      insert(NOTHING_CHANGED)
      const outcome = run(grant)
      // One of these takes the connection as soon as it is free, so that what follows is asked on the other one.
      const others = [1, 2].map(() => adapter.inspect('nothing').catch(() => undefined))
      await expect(outcome).rejects.toMatchObject(unknown)
      await Promise.all(others)
      await expect.poll(ended).toBe(1)
    },
  )

  test('nor is a release run again because of an error of another statement', async () => {
    const { adapter, request, take, insert, ended } = await client(2)
    // Both connections are open.
    await Promise.all([1, 2].map(async (n) => adapter.release(await take(request(`${n} by ${by}, before`)))))
    const grant = await take(request(`error by ${by}`))
    insert(DEADLOCK)
    const outcome = adapter.release(grant)
    const others = [1, 2].map(() => adapter.inspect('nothing').catch(() => undefined))
    await expect(outcome).rejects.toMatchObject(unknown)
    await Promise.all(others)
    await expect.poll(ended).toBe(1)
  })
})
