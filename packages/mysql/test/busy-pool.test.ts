import { createLocks } from '@locks/core'
import { fromConfig } from '@locks/mysql'
import { createPool as createCallbackPool } from 'mysql2'
import { createPool } from 'mysql2/promise'
import { expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { open, startServer } from './support/setup.ts'

const server = await startServer()
const ttlMs = scaled(1_000)

test.each([
  ['unique-key', 'promise'],
  ['unique-key', 'callback'],
  ['row', 'promise'],
  ['named', 'promise'],
])(
  '%s: a lease outlives queries of the program that take every connection of its pool (%s)',
  async (strategy, api) => {
    const config = { uri: server.url, connectionLimit: 2 }
    const given = api === 'promise' ? createPool(config) : createCallbackPool(config)
    const pool = 'promise' in given ? given.promise() : given
    onTestFinished(() => pool.end())
    const locks = createLocks(fromConfig({ pool: given, strategy }), { ttlMs })
    onTestFinished(() => locks.close())
    const other = open({ url: server.url, strategy })
    await locks.with('busy', async (lease) => {
      await Promise.all([1, 2].map(() => pool.query(`SELECT SLEEP(${(ttlMs * 3) / 1_000})`)))
      lease.assertHeld()
      expect(await other.lock('busy').tryAcquire()).toBeNull()
    })
  },
  scaled(15_000),
)

test.each(['promise', 'callback'])(
  'a pool whose connections are all in use is named in the error, and no connection is kept (%s)',
  async (api) => {
    const config = { uri: server.url, connectionLimit: 2 }
    const given = api === 'promise' ? createPool(config) : createCallbackPool(config)
    const pool = 'promise' in given ? given.promise() : given
    onTestFinished(() => pool.end())
    const locks = createLocks(fromConfig({ pool: given }))
    onTestFinished(() => locks.close())
    const taken = [await pool.getConnection(), await pool.getConnection()]
    await expect(locks.lock('full').tryAcquire()).rejects.toThrow('all 2 connections of your pool are in use')
    for (const connection of taken) connection.release()
    await locks.with('full', () => undefined)
  },
)
