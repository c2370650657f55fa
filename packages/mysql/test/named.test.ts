import { isLockError } from '@locks/core'
import { expect, test } from 'vitest'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { bare, cell, commonDefaults, connect, never, startServer } from './support/setup.ts'

const server = await startServer(commonDefaults)
const configOf = (strategy: string): { url: string; strategy: string } => ({ url: server.url, strategy })

test('named locks accept every name, and are granted once however often they are asked for', async () => {
  const config = configOf('named')
  const client = bare(config)
  const names = ['x'.repeat(1_024), 'X'.repeat(1_024), `${'x'.repeat(1_023)}y`]
  const grants = await Promise.all(names.map((name) => client.take(client.request(name))))
  // GET_LOCK itself would grant it again to the same connection.
  expect(await client.adapter.attempt(client.request(names[0] ?? ''))).toMatchObject({ busy: true })
  for (const grant of grants) expect(await client.adapter.release(grant)).toBe('released')
  for (const name of names) expect((await client.adapter.inspect(name)).held).toBe(false)
  const control = await connect(server)
  expect(
    await cell(control, "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'"),
  ).toBe('0')
})

test('a named lock does not block the making of a row of the same name', async () => {
  const [named, row] = [bare(configOf('named')), bare(configOf('row'))]
  const control = await connect(server)
  // As if the strategy was changed while clients of both are open.
  for (const client of [named, row]) {
    await control.query('DELETE FROM locks_strategy')
    await client.take(client.request('first'))
  }
  for (let round = 0; round < 5; round += 1) {
    const lock = `both:${round}`
    const grants = [await named.take(named.request(lock)), await row.take(row.request(lock))]
    expect(grants.map(({ name }) => name)).toEqual([lock, lock])
  }
})

test('a wait for a named lock that ends with NULL is neither a grant nor "busy"', async () => {
  const config = configOf('named')
  const [holder, waiter] = [bare(config), bare(config)]
  const held = await holder.take(holder.request('null'))
  const request = waiter.request('null', { willWait: true })
  await waiter.adapter.attempt(request)
  const control = await connect(server)
  const waiting = waiter.adapter.wait?.(request, scaled(60_000), never).catch((error: unknown) => error)
  const waits = "SELECT id FROM information_schema.processlist WHERE state = 'User lock' LIMIT 1"
  await eventually('it waits', async () => (await cell(control, waits)) !== '')
  await control.query(`KILL QUERY ${Number(await cell(control, waits))}`)
  const outcome = await waiting
  expect(outcome === undefined || isLockError(outcome, 'LOCK_UNAVAILABLE')).toBe(true)
  await waiter.adapter.withdraw(request)
  await holder.adapter.release(held)
})
