import { createLocks } from '@locks/core'
import { fromConfig } from '@locks/postgres'
import { Pool } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { bare, connect, open, startServer } from './support/setup.ts'

const server = await startServer()
const ttlMs = scaled(1_000)

test.each(['unique-key', 'row', 'advisory'])(
  '%s: a lease outlives queries of the program that take every connection of its pool',
  async (strategy) => {
    const pool = new Pool({ connectionString: server.url, max: 2 })
    onTestFinished(() => pool.end())
    const locks = createLocks(fromConfig({ pool, strategy }), { ttlMs })
    onTestFinished(() => locks.close())
    const other = open({ url: server.url, strategy })
    await locks.with('busy', async (lease) => {
      const asleep = [1, 2].map(() => pool.query('SELECT pg_sleep($1)', [(ttlMs * 3) / 1_000]))
      await Promise.all(asleep)
      lease.assertHeld()
      expect(await other.lock('busy').tryAcquire()).toBeNull()
    })
  },
  scaled(15_000),
)

test('unique-key: a lease outlives attempts that wait for a row locked by another program', async () => {
  const control = await connect(server)
  const locks = open({ url: server.url, poolSize: 2 }, { ttlMs })
  const strangers = bare({ url: server.url })
  const names = ['locked:0', 'locked:1']
  for (const name of names) await strangers.adapter.release(await strangers.take(strangers.request(name)))
  const lease = await locks.lock('kept').acquire()
  await control.query('BEGIN')
  await control.query("SELECT FROM locks WHERE name IN ('locked:0', 'locked:1') FOR UPDATE")
  // Granted only after the lease would have ended, or not at all.
  const tries = Promise.allSettled(names.map((name) => locks.lock(name).tryAcquire()))
  await new Promise((resolve) => setTimeout(resolve, ttlMs * 2))
  lease.assertHeld()
  await control.query('COMMIT')
  await tries
  await lease.release()
})

test('a pool whose connections are all in use is named in the error, and no connection is kept', async () => {
  const pool = new Pool({ connectionString: server.url, max: 2 })
  onTestFinished(() => pool.end())
  const locks = createLocks(fromConfig({ pool }))
  onTestFinished(() => locks.close())
  const taken = [await pool.connect(), await pool.connect()]
  await expect(locks.lock('full').tryAcquire()).rejects.toThrow('all 2 connections of your pool are in use')
  for (const client of taken) client.release()
  await locks.with('full', () => undefined)
  const free = (): boolean => pool.idleCount === 2 && pool.waitingCount === 0
  await eventually('no connection is kept', free)
})

test('a pool that gives up waiting for a connection is named in the error too', async () => {
  const pool = new Pool({ connectionString: server.url, max: 1, connectionTimeoutMillis: 100 })
  onTestFinished(() => pool.end())
  const locks = createLocks(fromConfig({ pool }))
  onTestFinished(() => locks.close())
  // More than once: here too, the pool may give up before the server has answered.
  const taken = await eventually('a connection', () => pool.connect())
  await expect(locks.lock('full').tryAcquire()).rejects.toThrow('all 1 connections of your pool are in use')
  taken.release()
})
