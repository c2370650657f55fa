import { createLocks, isLockError } from '@locks/core'
import type { TestAdapter } from '@locks/core/conformance'
import { fromConfig, migrate } from '@locks/mysql'
import { createPool } from 'mysql2/promise'
import { describe, expect, onTestFinished, test } from 'vitest'
import { atLength } from '../../../conformance/selection.ts'
import { scaled } from '../../../conformance/services/timing.ts'
import { bare, cell, commonDefaults, connect, open, startServer } from './support/setup.ts'

const server = await startServer(commonDefaults)
const strategies = ['unique-key', 'row', 'named'] as const
const configOf = (strategy: string): { url: string; strategy: string } => ({ url: server.url, strategy })

describe.each(strategies)('%s', (strategy) => {
  const config = configOf(strategy)

  const meet = async (clients: readonly TestAdapter[], lock: string): Promise<void> => {
    const answers = await Promise.all(clients.map(({ adapter, request }) => adapter.attempt(request(lock))))
    const [won, ...more] = answers.filter((answer) => 'fence' in answer)
    expect(more).toEqual([])
    expect(won).toBeDefined()
    const winner = clients[answers.findIndex((answer) => answer === won)]
    if (won !== undefined) expect(await winner?.adapter.release(won)).toBe('released')
  }

  test(
    'of two clients on a missing row one wins, many times, and no deadlock shows',
    async () => {
      const clients = [bare(config), bare(config)]
      // Neighbours in the index at the same time, which a gap lock would lock too.
      for (let round = 0; round < atLength(15, 100); round += 1)
        await Promise.all(Array.from({ length: 10 }, (_, n) => meet(clients, `missing:${round}:${n}`)))
    },
    scaled(240_000),
  )

  test(
    'the same in a pool of the program, at the isolation level of the server',
    async () => {
      const clients = [1, 2].map(() => {
        const pool = createPool({ uri: server.url, connectionLimit: 5 })
        onTestFinished(() => pool.end())
        return bare({ pool, strategy })
      })
      for (let round = 0; round < atLength(10, 20); round += 1)
        await Promise.all(Array.from({ length: 10 }, (_, n) => meet(clients, `missing:pool:${round}:${n}`)))
    },
    scaled(120_000),
  )

  test('names that a collation considers equal are different locks', async () => {
    const locks = open(config)
    const names = ['lock', 'LOCK', 'lock ', 'löck', 'lo\u0308ck', 'lock\t', 'Lock\0']
    const leases = await Promise.all(names.map((name) => locks.lock(name).tryAcquire()))
    expect(leases.every((lease) => lease !== null)).toBe(true)
    for (const lease of leases) await lease?.release()
  })

  test('connections that the server ended while idle are replaced unnoticed', async () => {
    const locks = open(config)
    await locks.with('idle:idle', () => undefined)
    await new Promise((resolve) => setTimeout(resolve, 3_500))
    await locks.with('idle:idle', () => undefined)
  })
})

test.each(['RELEASE', 'CHAIN'])('row: completion_type %s of the server does not matter', async (type) => {
  const control = await connect(server)
  // Pruning raises the fences of all new names of a table.
  const table = `completed_${type.toLowerCase()}`
  await migrate({ url: server.url, table })
  const { adapter, request, take } = bare({ ...configOf('row'), table, maxConnections: 1 })
  await control.query(`SET GLOBAL completion_type = '${type}'`)
  try {
    for (let n = 0; n < 3; n += 1)
      expect(await adapter.release(await take(request('ended')))).toBe('released')
    expect(await adapter.prune?.(0)).toEqual({ pruned: 1, more: false })
  } finally {
    await control.query("SET GLOBAL completion_type = 'NO_CHAIN'")
  }
})

test('a value that does not fit is an error, and is not cut', async () => {
  const control = await connect(server)
  await migrate({ url: server.url, table: 'narrow' })
  await control.query('ALTER TABLE narrow MODIFY name VARBINARY(10) NOT NULL')
  const locks = open({ ...configOf('unique-key'), table: 'narrow' })
  for (const name of ['0123456789a', '0123456789b']) {
    const error = await locks
      .lock(name)
      .tryAcquire()
      .catch((reason: unknown) => reason)
    expect(isLockError(error, 'LOCK_UNAVAILABLE')).toBe(true)
  }
  expect(await cell(control, 'SELECT COUNT(*) FROM narrow')).toBe('0')
})

test.each(strategies)('%s does not count changed rows, in a pool that reports them', async (strategy) => {
  const pool = createPool({ uri: server.url, flags: ['-FOUND_ROWS'], connectionLimit: 1 })
  onTestFinished(() => pool.end())
  const locks = createLocks(fromConfig({ pool, strategy }))
  onTestFinished(() => locks.close())
  const other = open(configOf(strategy))
  for (let n = 0; n < 5; n += 1) {
    const lease = await locks.lock('changed').acquire()
    await Promise.all([lease.extend(), lease.extend()])
    expect(await other.lock('changed').tryAcquire()).toBeNull()
    await lease.release()
  }
})

test('without hints waiters poll with back-off, and all of them get their turn', async () => {
  const clients = Array.from({ length: 6 }, () => open(configOf('unique-key')))
  expect(clients[0]?.capabilities).toMatchObject({ wait: 'poll', fairness: 'none' })
  const fences: bigint[] = []
  await Promise.all(
    clients.map((locks) =>
      locks.with('polled', { waitMs: scaled(30_000) }, ({ fence }) => void fences.push(fence)),
    ),
  )
  expect(fences).toEqual([1n, 2n, 3n, 4n, 5n, 6n])
})
