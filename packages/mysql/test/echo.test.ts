import type { Grant } from '@locks/core'
import { once } from 'node:events'
import { connect as connectTo, createServer } from 'node:net'
import { createPool } from 'mysql2/promise'
import { describe, expect, onTestFinished, test } from 'vitest'
import { bare, startServer } from './setup.ts'

const server = await startServer()
const EXECUTE = 0x17
const unknown = { code: 'LOCK_UNAVAILABLE' }

/** A proxy that can give each statement the answer to the one before it. An answer is what comes between two of them. */
async function lagging(): Promise<{ url: string; lag: () => void; ended: () => number }> {
  let lags = false
  let ended = 0
  const proxy = createServer((client) => {
    const behind = connectTo(server.port, server.host)
    let [last, answer] = [Buffer.alloc(0), Buffer.alloc(0)]
    let executes = false
    client
      .on('error', () => undefined)
      .on('data', (bytes) => {
        if (executes) last = answer
        executes = bytes[4] === EXECUTE
        answer = Buffer.alloc(0)
        if (executes && lags) client.write(last)
        behind.write(bytes)
      })
    client.on('close', () => {
      ended += 1
      behind.destroy()
    })
    behind.on('error', () => undefined).on('close', () => client.destroy())
    behind.on('data', (bytes) => {
      answer = Buffer.concat([answer, bytes])
      if (!executes || !lags) client.write(bytes)
    })
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const address = proxy.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const url = server.url.replace(`${server.host}:${server.port}`, `127.0.0.1:${port}`)
  return { url, lag: () => void (lags = true), ended: () => ended }
}

describe.each(['url', 'pool'])('by %s', (by) => {
  async function client() {
    const { url, lag, ended } = await lagging()
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
