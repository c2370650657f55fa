import { migrate } from '@locks/postgres'
import { afterAll, expect, test } from 'vitest'
import { postgresQuery, startService } from '../../../conformance/services/index.ts'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { bare, never } from './support/setup.ts'

// Without a background writer, what was replayed stays in memory until the first restartpoint.
const settings = { bgwriter_lru_maxpages: 0 }
const service = await startService('postgres-standby', { settings, needsControl: true })
afterAll(() => service.close())
const [primary, standby] = [service.server('primary'), service.server('standby')]

test('a standby that is promoted right after the migration hands locks off', async () => {
  await migrate({ url: primary.url })
  const at = (await postgresQuery(primary, 'SELECT pg_current_wal_flush_lsn()')) ?? ''
  const there = `SELECT pg_last_wal_replay_lsn() >= '${at}'::pg_lsn`
  await eventually('the standby has caught up', async () => (await postgresQuery(standby, there)) === 't')
  expect(await postgresQuery(standby, 'SELECT pg_promote()')).toBe('t')
  const [holder, waiter] = [bare({ url: standby.url }), bare({ url: standby.url })]
  const held = await holder.take(holder.request('promoted'))
  const request = waiter.request('promoted', { willWait: true })
  expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
  await holder.adapter.release(held)
  expect(await waiter.adapter.wait?.(request, scaled(10_000), never)).toMatchObject({
    fence: held.fence + 1n,
  })
})

test('no sequence is unlogged: a promoted standby might not have its value', async () => {
  const unlogged = "SELECT count(*) FROM pg_class WHERE relkind = 'S' AND relpersistence = 'u'"
  expect(await postgresQuery(primary, unlogged)).toBe('0')
})
