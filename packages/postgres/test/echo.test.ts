import type { Grant } from '@locks/core'
import { once } from 'node:events'
import { connect as connectTo, createServer } from 'node:net'
import type { Socket } from 'node:net'
import { Pool } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { bare, startServer } from './setup.ts'

const server = await startServer()
const READY = 'Z'.charCodeAt(0)

/** Whole answers, each of which ends with ReadyForQuery, and what is left of the next. */
function split(bytes: Buffer): { readonly answers: readonly Buffer[]; readonly rest: Buffer } {
  const answers: Buffer[] = []
  let [from, at] = [0, 0]
  while (at + 5 <= bytes.length) {
    const end = at + 1 + bytes.readUInt32BE(at + 1)
    if (end > bytes.length) break
    if (bytes[at] === READY) {
      answers.push(bytes.subarray(from, end))
      from = end
    }
    at = end
  }
  return { answers, rest: bytes.subarray(from) }
}

/** A proxy that can give the answer before to the next statement, and so on: each is one behind from then on. */
async function lagging(): Promise<{
  readonly url: string
  readonly lag: () => void
  readonly ended: () => number
}> {
  let lags = false
  let ended = 0
  const proxy = createServer((client) => {
    const behind: Socket = connectTo(server.port, server.host)
    let [last, rest] = [Buffer.alloc(0), Buffer.alloc(0)]
    client.on('error', () => undefined).on('data', (bytes) => void behind.write(bytes))
    client.on('close', () => {
      ended += 1
      behind.destroy()
    })
    behind.on('error', () => undefined).on('close', () => client.destroy())
    behind.on('data', (bytes) => {
      const found = split(Buffer.concat([rest, bytes]))
      rest = Buffer.from(found.rest)
      for (const answer of found.answers) {
        client.write(lags && last.length > 0 ? last : answer)
        last = Buffer.from(answer)
      }
    })
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const address = proxy.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  return { url, lag: () => void (lags = true), ended: () => ended }
}

const unknown = { code: 'LOCK_UNAVAILABLE' }

describe.each(['url', 'pool'])('by %s', (by) => {
  /** A client on one connection, whose statements have all been prepared once, on the names `a` and `b`. */
  async function client() {
    const { url, lag, ended } = await lagging()
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
