import { Client } from 'pg'
import { afterAll } from 'vitest'
import { sessionConnectionTests } from '../../../conformance/test-kit/session-connections.ts'
import { bare, open, startServer } from './setup.ts'

const server = await startServer({ max_connections: 100 })
const control = new Client({ connectionString: server.url })
await control.connect()
afterAll(() => control.end())
const counted = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'counted'"

const config = { url: `${server.url}?application_name=counted`, strategy: 'row' }
sessionConnectionTests('row', {
  open: (bounds, options) => open({ ...config, ...bounds }, options),
  bare: (bounds) => bare({ ...config, ...bounds }),
  count: async () => (await control.query<{ n: number }>(counted)).rows[0]?.n ?? NaN,
})
