import { Socket } from 'node:net'
import { Client, Pool } from 'pg'
import { afterAll, expect, onTestFinished, test, vi } from 'vitest'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { muteServerTest } from '../../sql/test/support/mute-server-test.ts'
import { sessionConnectionTests } from '../../sql/test/support/session-connection-tests.ts'
import { bare, connect, library, open, startServer } from './support/setup.ts'

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

test('the silence that a withdrawn try allowed does not apply to the next holder on its connection', async () => {
  const blocking = await connect(server)
  const [client, next] = [bare({ ...config, maxConnections: 1 }), open(config)]
  const brief = { ttlMs: scaled(2_000) }
  await client.adapter.release(await client.take(client.request('silence', brief)))
  await blocking.query('BEGIN')
  await blocking.query('LOCK TABLE locks_rows IN ACCESS EXCLUSIVE MODE')
  const request = client.request('silence')
  const tried = expect(client.adapter.attempt(request)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
  const tries = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%SKIP LOCKED%'"
  await eventually('it tries', async () => (await control.query(`SELECT ${tries}`)).rows.length > 0)
  const withdrawn = client.adapter.withdraw(request)
  await control.query(`SELECT pg_cancel_backend(pid) ${tries}`)
  await Promise.all([tried, withdrawn])
  await blocking.query('ROLLBACK')
  await client.take(client.request('silence', brief))
  // It sends nothing more, and the server ends it in time.
  await next.with('silence', { waitMs: scaled(10_000) }, () => undefined)
})

test.each([
  ['within ten seconds', {}, 10_000],
  ['when the pool says so', { keepAliveInitialDelayMillis: 60_000 }, 60_000],
])('a silent connection is probed %s', async (_when, settings, delayMs) => {
  const keepAlive = vi.spyOn(Socket.prototype, 'setKeepAlive')
  onTestFinished(() => keepAlive.mockRestore())
  const pool = new Pool({ connectionString: server.url, ...settings })
  onTestFinished(() => pool.end())
  const client = bare({ pool, strategy: 'row' })
  await client.take(client.request(`silent:${delayMs}`))
  // More than one, if the first was too slow.
  expect(new Set(keepAlive.mock.calls.map(String))).toEqual(new Set([`true,${delayMs}`]))
})

for (const strategy of ['unique-key', 'row'])
  muteServerTest({
    cwd: import.meta.dirname,
    adapter: '@locks/postgres',
    strategy,
    urlOf: (port) => `postgres://postgres@127.0.0.1:${port}/postgres?library=${library}`,
  })
