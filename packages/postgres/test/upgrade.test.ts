import { inTime } from '@locks/core/conformance'
import { migrate } from '@locks/postgres'
import { expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { seen } from '../../../conformance/test-support/seen.ts'
import { findingsOf } from '../../sql/test/support/findings.ts'
import { connect, contended, open, startServer } from './support/setup.ts'

const server = await startServer()

/** For so long a migration waits for a table before it asks again or gives up. */
const LOCK_WAIT_MS = 1_000

/** The schema of the first version: an identity column, no secrets, functions with fewer parameters. */
const firstVersion = `ALTER TABLE locks_waiters DROP COLUMN secret, DROP COLUMN since,
  ALTER COLUMN position ADD GENERATED ALWAYS AS IDENTITY;
DROP FUNCTION locks_attempt, locks_release, locks_withdraw, locks_break, locks_renew, locks_renew_locked;
CREATE FUNCTION locks_attempt(bytea, text, text, int, int, int, bigint) RETURNS text LANGUAGE sql AS 'SELECT NULL';
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
  const wrong = (await findingsOf(holder)).filter(
    ({ level, check }) => level !== 'ok' && check !== 'keepalives',
  )
  expect(wrong).toEqual([])
  const { rows } = await control.query("SELECT FROM pg_class WHERE relkind = 'S' AND relpersistence = 'u'")
  expect(rows).toEqual([])
  const old = await control.query(
    "SELECT oid::regprocedure::text AS it FROM pg_proc WHERE proname = 'locks_attempt'",
  )
  expect(old.rows).toEqual([
    { it: 'locks_attempt(bytea,text,text,integer,integer,integer,bigint,text,boolean)' },
  ])
  await lease.extend()
  const waits = contended(waiter, 'kept')
  const turn = waiter.lock('kept').acquire({ waitMs: scaled(20_000) })
  await waits
  await lease.release()
  expect((await turn).fence).toBe(lease.fence + 1n)
})

/** The function as it was: the lock-delay of its own lost grant keeps an attempt out. */
const ownDelay = /ELSIF v_lock\.attempt = p_attempt THEN.*?EXIT;\s*(?=ELSIF v_lock\.attempt IS NOT NULL)/s

test('clients of the version before and of this one share tables, before migrate and after it', async () => {
  const table = 'rolling'
  await migrate({ url: server.url, table })
  const control = await connect(server)
  const attempt = 'rolling_attempt(bytea, text, text, int, int, int, bigint, text, boolean)'
  const current = `SELECT pg_get_functiondef('${attempt}'::regprocedure) AS text`
  const definition = async (): Promise<string> =>
    (await control.query<{ text: string }>(current)).rows[0]?.text ?? ''
  const latest = await definition()
  const before = latest.replace(ownDelay, '')
  expect(before).not.toBe(latest)
  await control.query(before)

  const [holder, waiter] = [open({ url: server.url, table }), open({ url: server.url, table })]
  const lease = await holder.lock('a').acquire({ ttlMs: 60_000 })
  const waits = contended(waiter, 'a')
  const turn = waiter.lock('a').acquire({ waitMs: scaled(30_000) })
  await waits
  /** As a client of that version asks. */
  const asOld = async (name: string): Promise<unknown> => {
    const { rows } = await control.query(
      `SELECT o_granted, o_first FROM rolling_attempt($1, 'old', '{}', 30000, 0, 5000, NULL, NULL, true)`,
      [Buffer.from(name)],
    )
    return rows
  }
  expect(await asOld('b')).toEqual([{ o_granted: true, o_first: null }])
  await migrate({ url: server.url, table })
  expect(await definition()).toBe(latest)
  expect(await asOld('c')).toEqual([{ o_granted: true, o_first: null }])
  expect(await asOld('a')).toEqual([{ o_granted: false, o_first: null }])
  await lease.release()
  expect((await turn).fence).toBe(lease.fence + 1n)
})

test('a migration does not make waiters wait behind a backup, and says why it fails', async () => {
  const table = 'dumped'
  await migrate({ url: server.url, table })
  const [control, backup] = [await connect(server), await connect(server)]
  const reading = async (): Promise<void> => {
    await backup.query('BEGIN')
    await backup.query('SELECT FROM dumped_waiters')
  }
  await reading()
  await migrate({ url: server.url, table })
  await backup.query('COMMIT')
  await control.query('ALTER TABLE dumped_waiters DROP COLUMN since')
  await reading()
  const waiting = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'dumped_waiters'::regclass"
  const queued = async (): Promise<boolean> => (await control.query(waiting)).rowCount === 1

  const message: unknown = expect.stringMatching(/"dumped_waiters", as a backup does, .*nothing was changed/)
  const refused = migrate({ url: server.url, table }).catch((error: unknown) => error)
  await seen('it waits for the table', { lastsMs: LOCK_WAIT_MS, over: refused }, queued)
  await control.query('DELETE FROM dumped_waiters')
  expect(await inTime('a refusal', scaled(30_000), refused)).toMatchObject({
    code: 'LOCK_UNAVAILABLE',
    message,
  })

  const migrated = migrate({ url: server.url, table })
  await seen('it waits for the table', { lastsMs: LOCK_WAIT_MS, over: migrated }, queued)
  await backup.query('COMMIT')
  await migrated
  await control.query('SELECT since FROM dumped_waiters')
})
