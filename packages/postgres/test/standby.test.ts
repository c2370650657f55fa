import { migrate, prune } from '@locks/postgres'
import { afterAll, expect, test } from 'vitest'
import { postgresQuery, startService } from '../../../conformance/services/index.ts'
import type { Server } from '../../../conformance/services/index.ts'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { findingsOf } from '../../sql/test/support/findings.ts'
import { open } from './support/setup.ts'
import type { Config } from './support/setup.ts'

const service = await startService('postgres-standby', { needsControl: true })
afterAll(() => service.close())
const [primary, standby] = [service.server('primary'), service.server('standby')]
await migrate({ url: primary.url })
await migrate({ url: primary.url, table: 'row' })

/** Until the standby shows what the primary has written by now. */
async function caughtUp(): Promise<void> {
  const at = (await postgresQuery(primary, 'SELECT pg_current_wal_flush_lsn()')) ?? ''
  const there = `SELECT pg_last_wal_replay_lsn() >= '${at}'::pg_lsn`
  await eventually('the standby has caught up', async () => (await postgresQuery(standby, there)) === 't')
}

const message: unknown = expect.stringContaining('connect to the primary')
const refused = { code: 'LOCK_UNAVAILABLE', message }
const configOf = ({ url }: Server, strategy: string): Config =>
  strategy === 'row' ? { url, strategy, table: 'row' } : { url, strategy }

test.each(['unique-key', 'row'])('%s: diagnose reports a standby, and nothing else', async (strategy) => {
  await caughtUp()
  const maxConnections = strategy === 'row' ? { maxConnections: 5 } : {}
  const findings = await findingsOf(open({ ...configOf(standby, strategy), ...maxConnections }))
  const wrong = findings.filter(({ level, check }) => level !== 'ok' && check !== 'keepalives')
  expect(wrong).toEqual([
    {
      check: 'recovery',
      level: 'warning',
      message: 'the server is a standby and grants no locks',
      advice: 'connect to the primary',
    },
  ])
})

test.each(['unique-key', 'row'])(
  '%s: an acquire on a standby is an outage, and the error says why',
  async (strategy) => {
    const lock = `refused:${strategy}`
    const locks = open(configOf(standby, strategy), { storeTimeoutMs: scaled(2_000) })
    await open(configOf(primary, strategy)).with(lock, () => undefined)
    await caughtUp()
    for (const name of [lock, `${lock}:new`]) {
      await expect(locks.lock(name).tryAcquire()).rejects.toMatchObject(refused)
      await expect(locks.lock(`${name}:waits`).acquire({ waitMs: 500 })).rejects.toMatchObject(refused)
    }
  },
)

test.each(['unique-key', 'row'])(
  '%s: a standby does not report a name as free that is held on the primary',
  async (strategy) => {
    const lock = `held:${strategy}`
    const lease = await open(configOf(primary, strategy)).lock(lock).acquire()
    await caughtUp()
    const locks = open(configOf(standby, strategy))
    for (const ask of [() => locks.inspect(lock), () => locks.list(), () => locks.lock(lock).break()])
      await expect(ask()).rejects.toMatchObject(refused)
    await lease.extend()
    await lease.release()
  },
)

test.each([true, false])('advisory: a standby locks nothing, fencing %s', async (fencing) => {
  await caughtUp()
  const locks = open(
    { url: standby.url, strategy: 'advisory', table: fencing ? 'row' : 'unrecorded', fencing },
    { storeTimeoutMs: scaled(2_000) },
  )
  const outcome = fencing ? { code: 'LOCK_INVALID_ARGUMENT' } : refused
  await expect(locks.lock('a').tryAcquire()).rejects.toMatchObject(outcome)
  await expect(locks.lock('a').acquire({ waitMs: 500 })).rejects.toMatchObject(outcome)
  await expect(locks.inspect('a')).rejects.toMatchObject(outcome)
})

test('migrate and prune report a standby', async () => {
  await expect(migrate({ url: standby.url })).rejects.toMatchObject(refused)
  await expect(prune({ url: standby.url }, 0)).rejects.toMatchObject(refused)
})

test('a client that waits while a standby is promoted gets the lock, under a higher fence', async () => {
  const turns = []
  for (const strategy of ['unique-key', 'row']) {
    const { fence } = await open(configOf(primary, strategy)).with('promoted', (lease) => lease)
    await caughtUp()
    const locks = open(configOf(standby, strategy), { storeTimeoutMs: scaled(30_000) })
    turns.push({ fence, turn: locks.lock('promoted').acquire({ waitMs: scaled(20_000) }) })
  }
  await postgresQuery(standby, 'SELECT pg_promote()')
  for (const { fence, turn } of turns) expect((await turn).fence).toBeGreaterThan(fence)
})
