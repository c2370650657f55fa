import { createLocks } from '@locks/core'
import { fromConfig } from '@locks/postgres'
import { Pool } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { startPgbouncer, whyNoPgbouncer } from './support/pgbouncer.ts'
import { connect, contended, open, startServer } from './support/setup.ts'

const missing = await whyNoPgbouncer()
const server = await startServer()

async function start(mode: 'session' | 'transaction'): Promise<string> {
  const { url, close } = await startPgbouncer(server, mode)
  onTestFinished(close)
  return url
}

describe('PgBouncer', () => {
  test.for(['row', 'advisory'])(
    '%s refuses a pooler in transaction mode before it locks anything',
    async (strategy, { skip }) => {
      if (missing !== undefined) skip(missing)
      const url = await start('transaction')
      // Several clients test the pooler at the same time, and two connections within each client.
      const outcomes = [1, 2, 3].flatMap(() => {
        const locks = open({ url, strategy })
        return [locks.lock('a').acquire(), locks.lock('b').tryAcquire()]
      })
      for (const outcome of await Promise.allSettled(outcomes))
        expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'LOCK_UNSUPPORTED' } })
      const control = await connect(server)
      expect((await control.query('SELECT FROM locks_holders WHERE key IS NOT NULL')).rowCount).toBe(0)
    },
  )

  test('unique-key works in transaction mode without options: statements have no names, and waiters poll', async ({
    skip,
  }) => {
    if (missing !== undefined) skip(missing)
    const url = await start('transaction')
    // They share server connections, on which the names of their statements collide.
    const clients = [1, 2, 3].map(() => open({ url, poolSize: 2 }))
    const fences: bigint[] = []
    const rounds = clients.flatMap((locks) =>
      Array.from({ length: 10 }, () =>
        locks.with('shared', { waitMs: scaled(60_000) }, async (lease) => {
          await lease.extend()
          fences.push(lease.fence)
        }),
      ),
    )
    await Promise.all(rounds)
    expect(fences).toEqual(fences.map((_, n) => BigInt(n) + 1n))
    expect(await open({ url: server.url }).inspect('shared')).toMatchObject({ held: false })
  })

  test('a first acquire creates the tables in transaction mode', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const url = await start('transaction')
    // More than once: a session of the server may remember that a table is missing.
    for (const table of ['pooled', 'pooled_again', 'pooled_once_more']) {
      const clients = [1, 2, 3].map(() => open({ url, table }))
      await Promise.all(clients.map((locks) => locks.with('a', { waitMs: scaled(30_000) }, () => undefined)))
      await open({ url, table, migrate: false }).with('a', ({ fence }) => expect(fence).toBe(4n))
    }
  })

  test('a pool of the program works in transaction mode without options too', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const connectionString = await start('transaction')
    const clients = [1, 2, 3].map(() => {
      const pool = new Pool({ connectionString, max: 2 })
      onTestFinished(() => pool.end())
      const locks = createLocks(fromConfig({ pool }))
      onTestFinished(() => locks.close())
      return locks
    })
    for (let round = 0; round < 5; round += 1)
      await Promise.all(
        clients.map((locks) => locks.with('pool', { waitMs: scaled(30_000) }, (lease) => lease.extend())),
      )
    expect(await open({ url: server.url }).inspect('pool')).toMatchObject({ held: false })
  })

  test.for([
    ['transaction', 'row', 'warning'],
    ['transaction', 'unique-key', 'warning'],
    ['session', 'row', 'ok'],
    ['transaction', 'advisory', 'warning'],
  ] as const)('diagnose sees %s mode, for %s', async ([mode, strategy, level], { skip }) => {
    if (missing !== undefined) skip(missing)
    const found = await open({ url: await start(mode), strategy }).diagnose()
    expect(found.find(({ check }) => check === 'pooling')).toMatchObject({ level })
  })

  test.for(['row', 'advisory'])('%s works through a pooler in session mode', async (strategy, { skip }) => {
    if (missing !== undefined) skip(missing)
    const locks = open({ url: await start('session'), strategy })
    const lease = await locks.lock('a').acquire()
    await lease.extend()
    await lease.release()
  })

  test('unique-key works in transaction mode, by polling', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const url = `${await start('transaction')}?listen=false`
    const [holder, waiter] = [open({ url }, { ttlMs: scaled(1_000) }), open({ url })]
    const lease = await holder.lock('a').acquire()
    const waits = contended(waiter, 'a')
    const turns = Array.from({ length: 20 }, () =>
      waiter.with('a', { waitMs: scaled(20_000) }, ({ fence }) => fence),
    )
    await waits
    await lease.extend()
    await lease.release()
    const fences = await Promise.all(turns)
    expect(fences).toEqual(fences.map((_, n) => lease.fence + BigInt(n) + 1n))
  })
})
