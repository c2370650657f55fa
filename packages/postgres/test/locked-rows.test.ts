import type { Grant, Renewal } from '@locks/core/adapter'
import { prune } from '@locks/postgres'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { eventually, scaled, within } from '../../../conformance/services/timing.ts'
import { bare, connect, open, startServer } from './support/setup.ts'

const server = await startServer()
const config = { url: server.url }

/** A connection of a role that may lock the rows of `locks`, and nothing else: that takes a right to write a column. */
async function rowLocker(): Promise<Client> {
  const control = await connect(server)
  await control.query(
    `DO $$ BEGIN CREATE ROLE locker LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$`,
  )
  await control.query('GRANT SELECT, UPDATE (holder) ON locks TO locker')
  const client = new Client({ connectionString: server.url.replace('postgres@', 'locker@') })
  await client.connect()
  onTestFinished(() => client.end())
  for (const text of ["DELETE FROM locks WHERE name = 'a'", 'UPDATE locks SET attempt = NULL'])
    await expect(client.query(text)).rejects.toMatchObject({ code: '42501' })
  return client
}

const renewalOf = (grant: Grant): Renewal => ({ grant, ttlMs: 30_000, lockDelayMs: 0 })

test('a lock of another program on one row delays the renewal of that lease, and of no other', async () => {
  const [control, stranger] = [await connect(server), await rowLocker()]
  const client = bare(config)
  const grants = []
  for (const name of ['a', 'stuck', 'b', 'gone']) grants.push(await client.take(client.request(name)))
  await control.query("DELETE FROM locks WHERE name = 'gone'")
  await stranger.query('BEGIN')
  await stranger.query("SELECT FROM locks WHERE name = 'stuck' FOR UPDATE")
  const renewals = grants.map((grant) => renewalOf(grant))
  expect(await within(3_000, client.adapter.renew(renewals))).toEqual([
    'renewed',
    'unknown',
    'renewed',
    'lost',
  ])
  await stranger.query('ROLLBACK')
  expect(await client.adapter.renew(renewals)).toEqual(['renewed', 'renewed', 'renewed', 'lost'])
})

test('leases outlive a lock on the row of another lease, which outlives it too if it ends in time', async () => {
  const stranger = await rowLocker()
  const ttlMs = scaled(4_000)
  const locks = open(config, { ttlMs })
  const [heldUp, lost, ...others] = await Promise.all(
    ['held up', 'lost', 'c', 'd', 'e'].map((name) => locks.lock(name).acquire()),
  )
  await stranger.query('BEGIN')
  await stranger.query("SELECT FROM locks WHERE name = 'held up' FOR UPDATE")
  await new Promise((resolve) => setTimeout(resolve, ttlMs * 0.4))
  await stranger.query('ROLLBACK')
  await stranger.query('BEGIN')
  await stranger.query("SELECT FROM locks WHERE name = 'lost' FOR UPDATE")
  await eventually('it is lost', () => lost?.state === 'lost')
  await new Promise((resolve) => setTimeout(resolve, ttlMs))
  for (const lease of [heldUp, ...others]) lease?.assertHeld()
  await stranger.query('ROLLBACK')
})

test('a row that other sessions lock without a pause is renewed all the same', async () => {
  const holder = bare(config)
  const grant = await holder.take(holder.request('hot'))
  let over = false
  const crowd = Array.from({ length: 8 }, async () => {
    const client = bare({ ...config, poolSize: 1 })
    while (!over) expect(await client.adapter.attempt(client.request('hot'))).toMatchObject({ busy: true })
  })
  const all = Promise.all(crowd)
  all.catch(() => undefined)
  try {
    for (let n = 0; n < 30; n += 1)
      expect(await holder.adapter.renew([renewalOf(grant)])).toEqual(['renewed'])
  } finally {
    over = true
  }
  await all
})

test.each(['SHARE UPDATE EXCLUSIVE', 'EXCLUSIVE'])(
  'prune does not make others wait for a session that has the table in mode %s',
  async (mode) => {
    const session = await connect(server)
    const client = bare(config)
    const grant = await client.take(client.request(`beside ${mode}`))
    await client.adapter.release(await client.take(client.request(`old ${mode}`)))
    await session.query('BEGIN')
    await session.query(`LOCK TABLE locks IN ${mode} MODE`)
    // A vacuum does not block it; behind a mode that blocks all writers it gives up soon.
    const pruned = prune(config, 0)
    if (mode === 'EXCLUSIVE') {
      await expect(within(5_000, pruned)).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    } else {
      const renewed = within(2_000, client.adapter.renew([renewalOf(grant)]))
      expect(await renewed).toEqual(['renewed'])
      expect(await within(5_000, pruned)).toBeGreaterThan(0)
    }
    await session.query('ROLLBACK')
    expect(await client.adapter.renew([renewalOf(grant)])).toEqual(['renewed'])
  },
)

test('prune skips rows that another session has locked, and deletes them the next time', async () => {
  const stranger = await rowLocker()
  const client = bare(config)
  for (const name of ['idle', 'locked']) await client.adapter.release(await client.take(client.request(name)))
  await stranger.query('BEGIN')
  await stranger.query("SELECT FROM locks WHERE name = 'locked' FOR UPDATE")
  await within(5_000, prune(config, 0))
  const names = "SELECT convert_from(name, 'UTF8') AS name FROM locks WHERE name IN ('idle', 'locked')"
  expect((await stranger.query(names)).rows).toEqual([{ name: 'locked' }])
  await stranger.query('ROLLBACK')
  expect(await prune(config, 0)).toBeGreaterThan(0)
  expect((await stranger.query(names)).rows).toEqual([])
})

test('clients that try a row which stays locked do not use up the connections of the server', async () => {
  const [control, stranger] = [await connect(server), await rowLocker()]
  const locks = open({ url: `${server.url}?application_name=patient`, poolSize: 1 })
  await locks.with('stays locked', () => undefined)
  await stranger.query('BEGIN')
  await stranger.query("SELECT FROM locks WHERE name = 'stays locked' FOR UPDATE")
  const sessions = "SELECT FROM pg_stat_activity WHERE application_name = 'patient'"
  for (let n = 0; n < 3; n += 1) {
    const tried = locks.lock('stays locked').tryAcquire()
    await expect(tried).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    expect((await control.query(sessions)).rowCount).toBe(1)
  }
  await stranger.query('ROLLBACK')
  await locks.with('stays locked', { waitMs: scaled(20_000) }, () => undefined)
})
