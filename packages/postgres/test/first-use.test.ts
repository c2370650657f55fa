import { eventually } from '@locks/core/conformance'
import { Pool } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { firstUseTests } from '../../sql/test/support/first-use-tests.ts'
import { bare, connect, open, startServer } from './support/setup.ts'

const server = await startServer({ max_connections: 60 })
const { url } = server

firstUseTests({
  adapter: '@locks/postgres',
  server,
  strategies: ['unique-key', 'row'],
  open,
  run: async (text) => (await connect(server)).query(text),
  async tablesLike(table) {
    const control = await connect(server)
    return (await control.query('SELECT FROM pg_class WHERE starts_with(relname, $1)', [table])).rowCount ?? 0
  },
  async powerless() {
    const control = await connect(server)
    await control.query('CREATE ROLE powerless LOGIN')
    await control.query('REVOKE CREATE ON SCHEMA public FROM PUBLIC')
    return url.replace('postgres@', 'powerless@')
  },
})

test('a first acquire waits for a migration under way', async () => {
  const control = await connect(server)
  await control.query('BEGIN')
  await control.query("SELECT pg_advisory_xact_lock(hashtextextended('@locks/postgres migrate', 0))")
  const turn = open({ url, table: 'later' }, { storeTimeoutMs: scaled(30_000) })
    .lock('a')
    .acquire()
  await eventually('the acquire waits', scaled(10_000), async () => {
    const { rowCount } = await control.query(
      "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
    )
    return rowCount === 1
  })
  expect((await control.query("SELECT to_regclass('later') AS it")).rows).toEqual([{ it: null }])
  await control.query('COMMIT')
  await (await turn).release()
})

test('a client that is closed while it waits for a migration creates nothing afterwards', async () => {
  const [control, watching] = [await connect(server), await connect(server)]
  await control.query('BEGIN')
  await control.query("SELECT pg_advisory_xact_lock(hashtextextended('@locks/postgres migrate', 0))")
  const { adapter, request } = bare({ url: `${url}?application_name=closing`, table: 'closed' })
  const attempt = Promise.allSettled([adapter.attempt(request('a'))])
  const theirs = "FROM pg_stat_activity WHERE application_name = 'closing'"
  await eventually('the acquire waits', scaled(10_000), async () => {
    const { rowCount } = await watching.query(`SELECT ${theirs} AND wait_event_type = 'Lock'`)
    return rowCount === 1
  })
  await adapter.close()
  await control.query('COMMIT')
  expect(await attempt).toMatchObject([{ status: 'rejected', reason: { code: 'LOCK_UNAVAILABLE' } }])
  await eventually('its connections are gone', scaled(10_000), async () => {
    return (await watching.query(`SELECT ${theirs}`)).rowCount === 0
  })
  expect((await control.query("SELECT to_regclass('closed') AS it")).rows).toEqual([{ it: null }])
})

test('tables are created where transactions are read-only by default', async () => {
  const readOnly = `${url}?options=-c%20default_transaction_read_only%3Don`
  await open({ url: readOnly, table: 'read_only' }).with('a', ({ fence }) => expect(fence).toBe(1n))
})

test('tables are created on a connection of their own, beside a pool in which a transaction is open', async () => {
  const pool = new Pool({ connectionString: url, max: 2 })
  onTestFinished(() => pool.end())
  const client = await pool.connect()
  await client.query('BEGIN')
  await client.query('CREATE TABLE of_the_program (id int)')
  await open({ pool, table: 'beside' }).with('a', () => undefined)
  await client.query('ROLLBACK')
  client.release()
  await open({ url, table: 'beside', migrate: false }).with('a', ({ fence }) => expect(fence).toBe(2n))
})
