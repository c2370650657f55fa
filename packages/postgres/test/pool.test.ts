import { createLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import { startFaultProxy } from '@locks/core/conformance'
import type { FaultProxy } from '@locks/core/conformance'
import { fromConfig, migrate } from '@locks/postgres'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { Pool } from 'pg'
import type { PoolConfig } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { bare, connect, contended, open, startServer } from './support/setup.ts'

const server = await startServer()

function poolOf(config: PoolConfig): Pool {
  const pool = new Pool({ connectionString: server.url, ...config })
  pool.on('error', () => undefined)
  onTestFinished(() => pool.end())
  return pool
}

/** A pool of one connection, through a proxy. */
async function proxied(): Promise<{ readonly proxy: FaultProxy; readonly pool: Pool }> {
  const proxy = await startFaultProxy({ host: server.host, port: server.port })
  onTestFinished(() => proxy.close())
  const connectionString = `postgres://postgres@${proxy.host}:${proxy.port}/postgres`
  return { proxy, pool: poolOf({ connectionString, max: 1 }) }
}

function openOn(pool: Pool, strategy: string): Locks {
  const locks = createLocks(fromConfig({ pool, strategy }))
  onTestFinished(() => locks.close())
  return locks
}

test.each(['BEGIN', 'BEGIN; SELECT 1 / 0'])(
  'a transaction that the program left open in its pool (%s) is refused: its grants could be rolled back',
  async (left) => {
    const { proxy, pool } = await proxied()
    const client = await pool.connect()
    await client.query(left).catch(() => undefined)
    await eventually('it is in a transaction', () => /^[TE]$/.test(client.getTransactionStatus() ?? ''))
    client.release()
    // The state of the transaction arrives after the error.
    proxy.slice()
    const [locks, other] = [openOn(pool, 'unique-key'), open({ url: server.url })]
    await expect(locks.lock('left open').tryAcquire()).rejects.toMatchObject({
      code: 'LOCK_INVALID_ARGUMENT',
    })
    await other.with('left open', { waitMs: scaled(5_000) }, () => undefined)
    // Other users of the pool do not get this connection.
    await locks.with('left open', { waitMs: scaled(5_000) }, () => undefined)
  },
)

test.each(['unique-key', 'row'])('%s: a pool that reads binary is refused', (strategy) => {
  const pool = poolOf({ max: 1, ...{ binary: true } })
  expect(() => fromConfig({ pool, strategy })).toThrow(/binary/)
})

test("row: a wait outlasts the pool's query_timeout, and keeps its place", async () => {
  const pool = poolOf({ query_timeout: 1_000 })
  const [holder, first, second] = [1, 2, 3].map(() => openOn(pool, 'row'))
  if (holder === undefined || first === undefined || second === undefined) throw new Error('no clients')
  const lease = await holder.lock('patient').acquire()
  const turns: string[] = []
  const wait = async (locks: Locks, who: string): Promise<void> => {
    const waits = contended(locks, 'patient')
    const turn = locks.with('patient', { waitMs: scaled(20_000) }, () => void turns.push(who))
    all.push(turn)
    await waits
  }
  const all: Promise<unknown>[] = []
  await wait(first, 'first')
  // Longer than the time-out of the first one: without its place it would stand behind the second.
  await new Promise((resolve) => setTimeout(resolve, 700))
  await wait(second, 'second')
  await new Promise((resolve) => setTimeout(resolve, 700))
  await lease.release()
  await Promise.all(all)
  expect(turns).toEqual(['first', 'second'])
})

test(
  'a pool whose server falls silent is an outage in time, and works again afterwards',
  async () => {
    const { proxy, pool } = await proxied()
    const client = bare({ pool })
    await client.adapter.release(await client.take(client.request('silent')))
    proxy.blackhole('replies')
    await expect(client.adapter.attempt(client.request('silent'))).rejects.toMatchObject({
      code: 'LOCK_UNAVAILABLE',
    })
    proxy.pass()
    await client.take(client.request('another'))
  },
  scaled(20_000),
)

test(
  'migrate gives up on a server that accepts connections and never answers',
  async () => {
    const mute = createServer(() => undefined).listen(0, '127.0.0.1')
    await once(mute, 'listening')
    onTestFinished(() => void mute.close())
    const address = mute.address()
    const port = typeof address === 'object' ? address?.port : undefined
    const migrating = migrate({ url: `postgres://postgres@127.0.0.1:${port}/postgres` })
    await expect(migrating).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  },
  scaled(15_000),
)

test.each(['unique-key', 'row'])('%s: a holder is shown in full, whatever the encoding', async (strategy) => {
  const control = await connect(server)
  const database = `latin1_${strategy.replace('-', '_')}`
  await control.query(`CREATE DATABASE ${database} ENCODING LATIN1 TEMPLATE template0 LOCALE 'C'`)
  const url = server.url.replace(/postgres$/, database)
  await migrate({ url })
  const locks = open({ url, strategy })
  const lease = await locks.lock('schloß 🔒').acquire({ owner: 'Łukasz 🙂', waitMs: scaled(5_000) })
  expect((await locks.inspect('schloß 🔒')).holder?.owner).toBe('Łukasz 🙂')
  await lease.release()
})
