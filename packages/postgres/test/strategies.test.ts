import { migrate } from '@locks/postgres'
import { expect, test } from 'vitest'
import { sqlStrategyTests } from '../../sql/test/support/strategy-tests.ts'
import { connect, open, startServer } from './support/setup.ts'

const server = await startServer({ max_connections: 400 })
const { url } = server

sqlStrategyTests({
  server,
  strategies: ['unique-key', 'row'],
  open,
  migrate,
  run: async (text) => (await connect(server)).query(text),
})

test('a role that can read the record but not write it can use the strategy that owns the place', async () => {
  const control = await connect(server)
  const place = { schema: 'granted', table: 'locks' }
  await migrate({ url, ...place })
  await control.query('CREATE ROLE worker LOGIN')
  await control.query('GRANT USAGE ON SCHEMA granted TO worker')
  await control.query('GRANT ALL ON ALL TABLES IN SCHEMA granted TO worker')
  await control.query('REVOKE INSERT, UPDATE, DELETE ON granted.locks_strategy FROM worker')
  const worker = open({ url: url.replace('postgres@', 'worker@'), ...place })
  await expect(worker.lock('order').tryAcquire()).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  await open({ url, ...place }).with('order', () => undefined)
  await worker.with('order', () => undefined)
})
