import { createPool } from 'mysql2/promise'
import type { PoolOptions } from 'mysql2/promise'
import { describe, expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { bare, connect, never, open, startServer } from './support/setup.ts'

// Settings of servers and pools that must make no difference.
const server = await startServer()
const strategies = ['unique-key', 'row', 'named']

async function withGlobal(setting: string, restored: string): Promise<void> {
  const control = await connect(server)
  await control.query(`SET GLOBAL ${setting}`)
  onTestFinished(async () => {
    const again = await connect(server)
    await again.query(`SET GLOBAL ${restored}`)
  })
}

describe.each(strategies)('%s', (strategy) => {
  test.each([
    ['nestTables', { nestTables: true }],
    ['nestTables by a separator', { nestTables: '_' }],
    ['sql_safe_updates', {}, 'sql_safe_updates = 1'],
    ['sql_select_limit', {}, 'sql_select_limit = 1'],
  ] satisfies [string, PoolOptions, string?][])(
    'a pool with %s shows what is held, and renews it',
    async (_, options, setting?: string) => {
      const pool = createPool({ uri: server.url, connectionLimit: 2, ...options })
      onTestFinished(() => pool.end())
      if (setting !== undefined)
        pool.on('connection', (connection) => void connection.query(`SET SESSION ${setting}`))
      const client = bare({ pool, strategy })
      const names = ['one', 'two', 'three']
      const grants = await Promise.all(names.map((name) => client.take(client.request(name))))
      for (const { name, fence } of grants)
        expect(await client.adapter.inspect(name)).toMatchObject({ held: true, holder: { fence } })
      expect(await client.adapter.list?.(10)).toHaveLength(3)
      const renewals = grants.map((grant) => ({ grant, ttlMs: 30_000, lockDelayMs: 0 }))
      expect(await client.adapter.renew(renewals)).toEqual(grants.map(() => 'renewed'))
      for (const grant of grants) expect(await client.adapter.release(grant)).toBe('released')
    },
  )

  test('the adapter overrides transactions that are read-only by default', async () => {
    await withGlobal('tx_read_only = ON', 'tx_read_only = OFF')
    await open({ url: server.url, strategy }).with('read-only', { waitMs: scaled(3_000) }, () => undefined)
  })
})

test.each(['row', 'named'])(
  "%s: a holder outlives the server's limit for idle transactions",
  async (strategy) => {
    await withGlobal('idle_transaction_timeout = 1', 'idle_transaction_timeout = 0')
    const locks = open({ url: server.url, strategy })
    const lease = await locks.lock('idle').acquire()
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    await lease.extend()
    await lease.release()
  },
)

test.each(['row', 'named'])("%s: a wait outlasts the server's limit for statements", async (strategy) => {
  await withGlobal('max_statement_time = 1', 'max_statement_time = 0')
  const [holder, waiter] = [bare({ url: server.url, strategy }), bare({ url: server.url, strategy })]
  const held = await holder.take(holder.request('long'))
  const request = waiter.request('long', { willWait: true })
  await waiter.adapter.attempt(request)
  const waiting = waiter.adapter.wait?.(request, scaled(20_000), never)
  await new Promise((resolve) => setTimeout(resolve, 2_000))
  await holder.adapter.release(held)
  expect((await waiting)?.fence).toBeGreaterThan(held.fence)
})
