import { migrate } from '@locks/postgres'
import { expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { connect, contended, open, startServer } from './support/setup.ts'

const server = await startServer()

/** The schema of the first version: an identity column, no secrets, functions with fewer parameters. */
const firstVersion = `ALTER TABLE locks_waiters DROP COLUMN secret, DROP COLUMN since,
  ALTER COLUMN position ADD GENERATED ALWAYS AS IDENTITY;
DROP FUNCTION locks_attempt_next, locks_release, locks_withdraw, locks_break, locks_renew, locks_renew_locked;
CREATE FUNCTION locks_attempt(bytea, text, text, int, int, int, bigint) RETURNS text LANGUAGE sql AS 'SELECT NULL';
CREATE FUNCTION locks_attempt(bytea, text, text, int, int, int, bigint, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT NULL';
CREATE FUNCTION locks_release(bytea, text) RETURNS text LANGUAGE sql AS 'SELECT NULL';
CREATE FUNCTION locks_withdraw(bytea, text) RETURNS void LANGUAGE sql AS 'SELECT NULL';
CREATE FUNCTION locks_break(bytea, bigint) RETURNS text LANGUAGE sql AS 'SELECT NULL';
CREATE FUNCTION locks_renew(bytea[], text[], int[], int[]) RETURNS SETOF text LANGUAGE sql AS 'SELECT NULL'`

test('tables of an earlier version are refused with advice, and migrate updates them', async () => {
  const control = await connect(server)
  await control.query('CREATE ROLE app LOGIN')
  await control.query('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO app')
  const url = server.url.replace('postgres@', 'app@')
  const lease = await open({ url }).lock('kept').acquire({ ttlMs: 60_000 })
  await control.query(firstVersion)
  const message: unknown = expect.stringContaining('locks migrate')
  const late = open({ url })
  await expect(late.lock('new').tryAcquire()).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
    message,
  })
  const found = (await late.diagnose()).find(({ check }) => check === 'tables')
  expect(found).toMatchObject({ level: 'warning', advice: 'run migrate()' })

  for (let twice = 0; twice < 2; twice += 1) await migrate({ url: server.url })
  const [holder, waiter] = [open({ url }), open({ url })]
  const wrong = (await holder.diagnose()).filter(
    ({ level, check }) => level !== 'ok' && check !== 'keepalives',
  )
  expect(wrong).toEqual([])
  const { rows } = await control.query("SELECT FROM pg_class WHERE relkind = 'S' AND relpersistence = 'u'")
  expect(rows).toEqual([])
  const old = await control.query(
    "SELECT oid::regprocedure::text FROM pg_proc WHERE proname = 'locks_attempt'",
  )
  expect(old.rows).toEqual([])
  await lease.extend()
  const waits = contended(waiter, 'kept')
  const turn = waiter.lock('kept').acquire({ waitMs: scaled(20_000) })
  await waits
  await lease.release()
  expect((await turn).fence).toBe(lease.fence + 1n)
})
