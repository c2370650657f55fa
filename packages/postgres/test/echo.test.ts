import type { Grant } from '@locks/core/adapter'
import { Pool } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { lagging, NO_ROW } from './lagging-proxy.ts'
import { bare, startServer } from './setup.ts'

const server = await startServer()
const unknown = { code: 'LOCK_UNAVAILABLE' }

describe.each(['url', 'pool'])('by %s', (by) => {
  /** A client on one connection, whose statements have all been prepared once, on the names `a` and `b`. */
  async function client(connections = 1) {
    const { url, ...proxy } = await lagging(server)
    const pool = new Pool({ connectionString: url, max: connections })
    pool.on('error', () => undefined)
    onTestFinished(() => pool.end())
    // Without names, each answer is one for all of a statement.
    const opened = bare(
      by === 'url' ? { url, poolSize: connections, listen: false } : { pool, listen: false },
    )
    const holder = bare({ url: server.url })
    return { ...opened, holder, ...proxy }
  }

  test('the answer to one attempt is not taken for that to another', async () => {
    const { adapter, request, take, holder, lag, ended } = await client()
    const name = `attempt by ${by}`
    await holder.take(holder.request(name))
    await take(request(`${name}, free`))
    lag()
    await expect(adapter.attempt(request(name))).rejects.toMatchObject(unknown)
    await expect.poll(ended).toBe(1)
    expect(await holder.adapter.inspect(name)).toMatchObject({ held: true })
  })

  test('nor that to an earlier renewal, release or hand-over for a later one', async () => {
    const acts = {
      renew: (grant: Grant) => [{ grant, ttlMs: 30_000, lockDelayMs: 0 }],
      release: (grant: Grant) => grant,
      adopt: (grant: Grant) => grant,
    }
    for (const act of ['renew', 'release', 'adopt'] as const) {
      const { adapter, request, take, lag, ended } = await client()
      const grants = [await take(request(`${act} 1 by ${by}`)), await take(request(`${act} 2 by ${by}`))]
      const run = (grant: Grant): Promise<unknown> => {
        if (act === 'renew') return adapter.renew(acts.renew(grant))
        if (act === 'release') return adapter.release(grant)
        return adapter.adopt?.(grant, request(grant.name)) ?? Promise.reject(new Error('no adopt'))
      }
      const [first, second] = grants
      if (first === undefined || second === undefined) throw new Error('no grants')
      await run(first)
      lag()
      await expect(run(second)).rejects.toMatchObject(unknown)
      await expect.poll(ended).toBe(1)
    }
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
      insert(NO_ROW)
      const outcome = run(grant)
      // One of these takes the connection as soon as it is free, so that what follows is asked on the other one.
      const others = [1, 2].map(() => adapter.inspect('nothing').catch(() => undefined))
      await expect(outcome).rejects.toMatchObject(unknown)
      await Promise.all(others)
      await expect.poll(ended).toBe(1)
    },
  )
})
