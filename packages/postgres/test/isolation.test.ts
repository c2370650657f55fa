import { createLocks } from '@locks/core'
import { fromConfig } from '@locks/postgres'
import { Pool } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { findingsOf } from '../../sql/test/support/findings.ts'
import { bare, connect, never, open, startServer } from './support/setup.ts'

const server = await startServer()

/** The URL of a role with other defaults for transactions than ours. */
async function urlOf(role: string, setting: string): Promise<string> {
  const control = await connect(server)
  await control.query(`CREATE ROLE ${role} LOGIN`)
  await control.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO ${role}`)
  await control.query(`ALTER ROLE ${role} SET ${setting}`)
  return server.url.replace('postgres@', `${role}@`)
}

test.each(['repeatable read', 'serializable'])(
  'a release under %s by default does not overlook a waiter that came while it waited for the row',
  async (level) => {
    const role = `role_${level.replace(' ', '_')}`
    const url = await urlOf(role, `default_transaction_isolation = '${level}'`)
    const [control, blocking] = [await connect(server), await connect(server)]
    const [holder, first, second] = [bare({ url }), bare({ url: server.url }), bare({ url: server.url })]
    const held = await holder.take(holder.request(role))
    // The row already shows that there is a waiter, so the second waiter does not change it.
    const left = first.request(role, { willWait: true })
    expect(await first.adapter.attempt(left)).toMatchObject({ busy: true })
    await first.adapter.withdraw(left)
    // Listens from now on.
    const request = second.request(role, { willWait: true })
    expect(await second.adapter.attempt(request)).toMatchObject({ busy: true })
    await second.adapter.withdraw(request)
    const waiting = async (): Promise<number> => {
      const text = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
      return (await control.query<{ n: number }>(text)).rows[0]?.n ?? NaN
    }
    const next = second.request(role, { willWait: true })
    await blocking.query('BEGIN')
    await blocking.query('SELECT FROM locks WHERE name = $1 FOR UPDATE', [Buffer.from(role)])
    const asked = second.adapter.attempt(next)
    asked.catch(() => undefined)
    await eventually('it asks', async () => (await waiting()) === 1)
    const released = holder.adapter.release(held)
    released.catch(() => undefined)
    await eventually('the other releases', async () => (await waiting()) === 2)
    await blocking.query('ROLLBACK')
    expect(await asked).toMatchObject({ busy: true })
    expect(await released).toBe('released')
    expect(await second.adapter.wait?.(next, scaled(5_000), never)).toMatchObject({ fence: held.fence + 1n })
  },
)

test('a pool of the program under another isolation level is refused, and the error says what to set', async () => {
  const url = await urlOf('strict', "default_transaction_isolation = 'repeatable read'")
  const pool = new Pool({ connectionString: url })
  onTestFinished(() => pool.end())
  const locks = createLocks(fromConfig({ pool }))
  onTestFinished(() => locks.close())
  await open({ url: server.url }).with('strict', () => undefined)
  const message: unknown = expect.stringContaining('read committed')
  await expect(locks.lock('strict').tryAcquire()).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
    message,
  })
  const found = (await locks.diagnose()).find(({ check }) => check === 'isolation')
  expect(found).toMatchObject({ level: 'warning' })
})

test.each(['row', 'advisory'])(
  '%s prunes in a pool of the program that is serializable',
  async (strategy) => {
    const url = await urlOf(`pruning_${strategy}`, "default_transaction_isolation = 'serializable'")
    const pool = new Pool({ connectionString: url })
    onTestFinished(() => pool.end())
    const { adapter, request, take } = bare({ pool, strategy })
    const held = await take(request('held'))
    await adapter.release(await take(request('idle')))
    expect(await adapter.prune?.(0, ['held', 'idle'])).toEqual({ pruned: 1, more: false })
    expect(await adapter.release(held)).toBe('released')
  },
)

test('connections of the adapter set both, and the role keeps its defaults', async () => {
  const control = await connect(server)
  const url = await urlOf('reporting', 'default_transaction_read_only = on')
  await control.query("ALTER ROLE reporting SET default_transaction_isolation = 'serializable'")
  const locks = open({ url })
  for (let n = 0; n < 3; n += 1) await locks.with('reporting', () => undefined)
  const wrong = (await findingsOf(locks)).filter(
    ({ level, check }) => level !== 'ok' && check !== 'keepalives',
  )
  expect(wrong).toEqual([])
})
