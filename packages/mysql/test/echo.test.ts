import type { Grant } from '@locks/core'
import { createPool } from 'mysql2/promise'
import { describe, expect, onTestFinished, test } from 'vitest'
import { lagging } from './lagging-proxy.ts'
import { bare, startServer } from './setup.ts'

const server = await startServer()
const unknown = { code: 'LOCK_UNAVAILABLE' }

describe.each(['url', 'pool'])('by %s', (by) => {
  async function client() {
    const { url, lag, ended } = await lagging(server)
    const pool = createPool({ uri: url, connectionLimit: 1 })
    onTestFinished(() => pool.end())
    return { ...bare(by === 'url' ? { url, poolSize: 1 } : { pool }), lag, ended }
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
})
