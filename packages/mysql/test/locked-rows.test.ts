import type { Grant, Renewal } from '@locks/core/adapter'
import { createConnection, createPool } from 'mysql2/promise'
import type { Connection } from 'mysql2/promise'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually, scaled, within } from '../../../conformance/services/timing.ts'
import { bare, connect, open, startServer } from './support/setup.ts'

const server = await startServer()
const config = { url: server.url }
const renewalOf = (grant: Grant): Renewal => ({ grant, ttlMs: 30_000, lockDelayMs: 0 })

/** A connection of a user that may lock the rows of `locks`, and change nothing that is part of a lock. */
async function rowLocker(): Promise<Connection> {
  const control = await connect(server)
  await control.query("CREATE USER IF NOT EXISTS locker@'%' IDENTIFIED BY 'right'")
  await control.query("GRANT SELECT, UPDATE (holder) ON locks.locks TO locker@'%'")
  const { host, port } = server
  const login = { user: 'locker', password: 'right', database: 'locks' }
  const connection = await createConnection({ host, port, ...login })
  onTestFinished(() => connection.end())
  for (const text of ["DELETE FROM locks WHERE name = 'a'", "UPDATE locks SET attempt = 'x'"])
    await expect(connection.query(text)).rejects.toThrow(/denied/)
  return connection
}

describe.each(['url', 'pool'])('by %s', (by) => {
  const client = (): ReturnType<typeof bare> => {
    if (by === 'url') return bare(config)
    const pool = createPool({ uri: server.url, connectionLimit: 4 })
    onTestFinished(() => pool.end())
    return bare({ pool })
  }

  test('a lock of another program on one row delays the renewal of that lease, and of no other', async () => {
    const [control, stranger] = [await connect(server), await rowLocker()]
    const { adapter, take, request } = client()
    const grants = []
    for (const name of ['a', 'stuck', 'b', 'gone', 'another'])
      grants.push(await take(request(`${name} by ${by}`)))
    await control.query('DELETE FROM locks WHERE name = ?', [`gone by ${by}`])
    await control.query("UPDATE locks SET attempt = 'x' WHERE name = ?", [`another by ${by}`])
    await stranger.beginTransaction()
    await stranger.query('SELECT * FROM locks WHERE name = ? FOR UPDATE', [`stuck by ${by}`])
    const renewals = grants.map((grant) => renewalOf(grant))
    const outcomes = await within(3_000, adapter.renew(renewals))
    // After the locked row there may be no time left to see that a row is gone.
    expect(outcomes.toSpliced(3, 1)).toEqual(['renewed', 'unknown', 'renewed', 'lost'])
    expect(outcomes[3]).not.toBe('renewed')
    await stranger.rollback()
    expect(await adapter.renew(renewals)).toEqual(['renewed', 'renewed', 'renewed', 'lost', 'lost'])
  })

  test('a row that other sessions lock without a pause is renewed all the same', async () => {
    const holder = client()
    const grant = await holder.take(holder.request(`hot by ${by}`))
    let over = false
    const crowd = Array.from({ length: 8 }, async () => {
      const { adapter, request } = bare({ ...config, poolSize: 1 })
      while (!over) expect(await adapter.attempt(request(grant.name))).toMatchObject({ busy: true })
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
})

test('leases outlive a lock on the row of another lease, which outlives it too if it ends in time', async () => {
  const stranger = await rowLocker()
  const ttlMs = scaled(4_000)
  const locks = open(config, { ttlMs })
  const [heldUp, lost, ...others] = await Promise.all(
    ['held up', 'lost', 'c', 'd', 'e'].map((name) => locks.lock(name).acquire()),
  )
  await stranger.beginTransaction()
  await stranger.query("SELECT * FROM locks WHERE name = 'held up' FOR UPDATE")
  await new Promise((resolve) => setTimeout(resolve, ttlMs * 0.4))
  await stranger.rollback()
  await stranger.beginTransaction()
  await stranger.query("SELECT * FROM locks WHERE name = 'lost' FOR UPDATE")
  await eventually('it is lost', () => lost?.state === 'lost')
  await new Promise((resolve) => setTimeout(resolve, ttlMs))
  for (const lease of [heldUp, ...others]) lease?.assertHeld()
  await stranger.rollback()
})
