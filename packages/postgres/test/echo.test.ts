import type { Grant } from '@locks/core'
import { Pool } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { lagging } from './lagging-proxy.ts'
import { bare, startServer } from './setup.ts'

const server = await startServer()
const unknown = { code: 'LOCK_UNAVAILABLE' }

describe.each(['url', 'pool'])('by %s', (by) => {
  /** A client on one connection, whose statements have all been prepared once, on the names `a` and `b`. */
  async function client() {
    const { url, lag, ended } = await lagging(server)
    const pool = new Pool({ connectionString: url, max: 1 })
    pool.on('error', () => undefined)
    onTestFinished(() => pool.end())
    // Without names, each answer is one for all of a statement.
    const opened = bare(by === 'url' ? { url, poolSize: 1, listen: false } : { pool, listen: false })
    const holder = bare({ url: server.url })
    return { ...opened, holder, lag, ended }
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
})
