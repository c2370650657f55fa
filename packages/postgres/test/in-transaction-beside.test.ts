import { isLockError } from '@locks/core'
import { eventually } from '@locks/core/conformance'
import { migrate } from '@locks/postgres'
import { lockInTransaction } from '@locks/postgres/transaction'
import type { Client } from 'pg'
import { expect, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { bare, connect, open, startServer } from './support/setup.ts'

// A lock in a transaction, beside clients of the strategies.

const server = await startServer()
const { url } = server
const row = { url, strategy: 'row' }

async function begun(): Promise<Client> {
  const client = await connect(server)
  await client.query('BEGIN')
  return client
}

test('a fence is not below the clock, even where the function of an earlier version is left', async () => {
  const control = await connect(server)
  await control.query(`CREATE OR REPLACE FUNCTION locks_mint(bytea, text, text, bigint, int) RETURNS bigint
LANGUAGE sql AS 'SELECT 1::bigint'`)
  const client = await begun()
  const { fence } = await lockInTransaction(client, 'old function')
  await client.query('ROLLBACK')
  await open(row).with('old function', (lease) => expect(lease.fence).toBeGreaterThan(fence))
  await migrate({ url })
  const { rows } = await control.query("SELECT to_regproc('locks_mint') IS NULL AS gone")
  expect(rows).toEqual([{ gone: true }])
})

test.for([true, false])(
  'advisory and strategy advisory with fencing: %s exclude each other',
  async (fencing) => {
    const name = `both ways, ${fencing}`
    const locks = open({ url, strategy: 'advisory', fencing })
    const client = await begun()
    const options = { advisory: true } as const
    await lockInTransaction(client, name, options)
    expect(await locks.lock(name).tryAcquire()).toBeNull()
    const turn = locks.lock(name).acquire({ waitMs: scaled(20_000) })
    await client.query('COMMIT')
    const lease = await turn
    await client.query('BEGIN')
    for (const waitMs of [0, 100])
      await expect(lockInTransaction(client, name, { ...options, waitMs })).rejects.toMatchObject({
        code: 'LOCK_TIMEOUT',
      })
    const other = await begun()
    const inOther = lockInTransaction(other, name, { ...options, waitMs: scaled(20_000) })
    await lease.release()
    await inOther
    await other.query('COMMIT')
    await client.query('COMMIT')
  },
)

test('a name that advisory could not lock as a whole is left free', async () => {
  const lease = await open({ url, strategy: 'advisory', fencing: false }).lock('half').acquire()
  const [client, other] = [await begun(), await begun()]
  for (const waitMs of [0, 100])
    await expect(lockInTransaction(client, 'half', { advisory: true, waitMs })).rejects.toMatchObject({
      code: 'LOCK_TIMEOUT',
    })
  await lease.release()
  await lockInTransaction(other, 'half', { advisory: true, waitMs: 0 })
  await other.query('COMMIT')
  await client.query('COMMIT')
})

test('while a transaction holds a name, no other strategy takes the table; then it can', async () => {
  const client = await begun()
  await lockInTransaction(client, 'undecided')
  for (const strategy of ['unique-key', 'advisory']) {
    const refusal: unknown = await open({ url, strategy }, { retry: { attempts: 1 } })
      .lock('undecided')
      .tryAcquire()
      .catch((error: unknown) => error)
    expect(isLockError(refusal, 'LOCK_UNAVAILABLE')).toBe(true)
    expect(String(refusal)).toContain('transaction')
  }
  const second = await begun()
  await lockInTransaction(second, 'another name', { waitMs: 0 })
  await second.query('COMMIT')
  expect(await open(row).lock('undecided').tryAcquire()).toBeNull()
  await client.query('ROLLBACK')
  await open(row).with('undecided', () => undefined)
  await expect(open({ url }).lock('undecided').tryAcquire()).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
  })
})

test('while a transaction holds a name, no client without fences is granted one, and the other way round', async () => {
  const control = await connect(server)
  await control.query('DELETE FROM locks_strategy')
  const client = await begun()
  await lockInTransaction(client, 'before')
  const unfenced = open({ url, strategy: 'advisory', fencing: false }, { retry: { attempts: 1 } })
  const refusal: unknown = await unfenced
    .lock('before')
    .tryAcquire()
    .catch((error: unknown) => error)
  expect(isLockError(refusal, 'LOCK_UNAVAILABLE')).toBe(true)
  expect(String(refusal)).toContain('transaction')
  await client.query('COMMIT')
  const lease = await unfenced.lock('before').acquire()
  await client.query('BEGIN')
  await expect(lockInTransaction(client, 'before')).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  await client.query('ROLLBACK')
  await lease.release()
})

test('of a transaction and a client of unique-key that start at once, never do both get the name', async () => {
  for (let round = 0; round < 20; round += 1) {
    const control = await connect(server)
    await control.query('DELETE FROM locks_strategy')
    const client = await begun()
    const name = `race ${round}`
    const outcomes = await Promise.all([
      lockInTransaction(client, name).catch((error: unknown) => error),
      open({ url }, { storeTimeoutMs: 200 })
        .lock(name)
        .tryAcquire()
        .catch((error: unknown) => error),
    ])
    expect(outcomes.some((outcome) => outcome instanceof Error)).toBe(true)
    await client.query('ROLLBACK')
    await Promise.all([client.end(), control.end()])
  }
})

test('a refusal because of the strategy locks nothing', async () => {
  await open({ url }).with('refused', () => undefined)
  const [client, control] = [await begun(), await connect(server)]
  await expect(lockInTransaction(client, 'refused')).rejects.toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
  await control.query('DELETE FROM locks_strategy')
  const other = await begun()
  await lockInTransaction(other, 'refused', { waitMs: 0 })
  await other.query('COMMIT')
  await client.query('ROLLBACK')
})

test('a break ends the transaction that inspect showed, and no later one', async () => {
  const { adapter } = bare(row)
  const client = await begun()
  await lockInTransaction(client, 'broken by name')
  const { holder = { owner: '' } } = await adapter.inspect('broken by name')
  await client.query('COMMIT')
  await client.query('BEGIN')
  await lockInTransaction(client, 'broken by name')
  expect(await adapter.break?.('broken by name', holder)).toBe('not-held')
  expect((await client.query('SELECT 7 AS n')).rows).toEqual([{ n: 7 }])
  const now = await adapter.inspect('broken by name')
  expect(await adapter.break?.('broken by name', now.holder ?? { owner: '' })).toBe('broken')
  await eventually('it is free', 5_000, async () => !(await adapter.inspect('broken by name')).held)
})

test('a READ ONLY transaction is refused at once; advisory writes nothing and is not', async () => {
  const holder = await begun()
  await lockInTransaction(holder, 'read only')
  const client = await connect(server)
  await client.query('BEGIN READ ONLY')
  await expect(lockInTransaction(client, 'read only')).rejects.toMatchObject({
    code: 'LOCK_INVALID_ARGUMENT',
    message: expect.stringContaining('READ WRITE') as unknown,
  })
  await lockInTransaction(client, 'read only advisory', { advisory: true })
  await client.query('ROLLBACK')
  await holder.query('COMMIT')
})

test('ROLLBACK TO SAVEPOINT frees what was locked behind it', async () => {
  const [client, other] = [await begun(), await begun()]
  await lockInTransaction(client, 'before')
  await client.query('SAVEPOINT early')
  await lockInTransaction(client, 'behind')
  await client.query('ROLLBACK TO SAVEPOINT early')
  await lockInTransaction(other, 'behind', { waitMs: 0 })
  await expect(lockInTransaction(other, 'before', { waitMs: 0 })).rejects.toMatchObject({
    code: 'LOCK_TIMEOUT',
  })
  await client.query('ROLLBACK')
  await other.query('ROLLBACK')
})

test('locks that one transaction asks for at once do not change its settings', async () => {
  const [client, holder, other] = [await begun(), await begun(), await begun()]
  await lockInTransaction(holder, 'at once 1')
  await lockInTransaction(other, 'at once 2')
  await client.query("SET LOCAL statement_timeout = '500ms'")
  const waitMs = scaled(20_000)
  const first = lockInTransaction(client, 'at once 1', { waitMs })
  const pause = (): Promise<unknown> => new Promise((resolve) => setTimeout(resolve, 700))
  await pause()
  const second = lockInTransaction(client, 'at once 2', { waitMs })
  await holder.query('COMMIT')
  await first
  await pause()
  await other.query('COMMIT')
  expect(await second).toMatchObject({ name: 'at once 2' })
  const { rows } = await client.query("SELECT current_setting('statement_timeout') AS timeout")
  expect(rows).toEqual([{ timeout: '500ms' }])
  await client.query('ROLLBACK')
})
