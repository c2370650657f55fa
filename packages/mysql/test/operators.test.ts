import { isLockError } from '@locks/core'
import type { Finding } from '@locks/core'
import { describe, expect, test } from 'vitest'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { findingsOf } from '../../sql/test/support/findings.ts'
import { bare, cell, connect, contended, lossOf, open, startServer } from './support/setup.ts'

const server = await startServer({ 'log-bin': 'binlog' })
const strategies = ['unique-key', 'row', 'named'] as const
const as = (user: string): string => server.url.replace('//locks@', `//${user}@`)

describe.each(['row', 'named'])('%s', (strategy) => {
  const config = { url: server.url, strategy }

  test('a break ends that hold: neither a later hold of its connection nor another one of the client', async () => {
    const holder = bare({ ...config, maxConnections: 2 })
    const operator = bare(config)
    const [first, other] = [holder.request('first'), holder.request('other')]
    const over = await holder.take(first)
    const kept = await holder.take(other)
    const { holder: seen } = await operator.adapter.inspect('first')
    await holder.adapter.release(over)
    // On the connection of the other hold.
    const again = await holder.take(holder.request('first'))
    expect(await operator.adapter.break?.('first', { owner: 'x', fence: over.fence })).toBe('not-held')
    if (seen !== undefined) expect(await operator.adapter.break?.('first', seen)).toBe('not-held')
    expect(
      await holder.adapter.renew([again, kept].map((grant) => ({ grant, ttlMs: 30_000, lockDelayMs: 0 }))),
    ).toEqual(['renewed', 'renewed'])
    expect(await operator.adapter.break?.('first', { owner: 'x', fence: again.fence })).toBe('broken')
    expect(await operator.adapter.inspect('first')).toEqual({ name: 'first', held: false })
    await eventually('the loss is reported', () => holder.lost.length > 0)
    expect(holder.lost).toEqual([again.attemptId])
    expect(await holder.adapter.renew([{ grant: kept, ttlMs: 30_000, lockDelayMs: 0 }])).toEqual(['renewed'])
  })

  test('a break without the right to end connections is refused, and the holder stays', async () => {
    const control = await connect(server)
    await control.query(`CREATE USER IF NOT EXISTS weak@'%'`)
    await control.query(`GRANT SELECT, INSERT, UPDATE, DELETE ON locks.* TO weak@'%'`)
    const [holder, weak] = [open(config), open({ url: as('weak'), strategy })]
    const lease = await holder.lock('strong').acquire()
    const error = await weak
      .lock('strong')
      .break()
      .catch((reason: unknown) => reason)
    expect(isLockError(error, 'LOCK_INVALID_ARGUMENT')).toBe(true)
    expect(String(error)).toContain('CONNECTION ADMIN')
    await lease.extend()
    await lease.release()
    // It may end its own.
    const own = await weak.lock('weak').acquire()
    const lost = lossOf(own)
    expect(
      (
        await open({ url: as('weak'), strategy })
          .lock('weak')
          .break()
      )?.fence,
    ).toBe(own.fence)
    await lost
  })

  test('after a break the first waiter has the lock, and list shows no other holder', async () => {
    const [holder, next, operator] = [open(config), open(config), open(config)]
    await holder.lock('queue').acquire()
    const waits = contended(next, 'queue')
    const turn = next.lock('queue').acquire({ owner: 'next', waitMs: scaled(20_000) })
    await waits
    await operator.lock('queue').break()
    const lease = await turn
    const listed = (await operator.list()).filter(({ name }) => name === 'queue')
    expect(listed.map(({ holder: by }) => [by?.owner, by?.fence])).toEqual([['next', lease.fence]])
  })
})

test.each(['row', 'named'])(
  '%s: a server that may be a replica does not report a name as free that is held on its primary',
  async (strategy) => {
    const control = await connect(server)
    const [holder, operator] = [
      open({ url: server.url, strategy }),
      bare({ url: server.url, strategy }).adapter,
    ]
    const lease = await holder.lock('seen').acquire()
    await control.query('SET GLOBAL read_only = ON')
    try {
      const message: unknown = expect.stringContaining('read_only')
      const unknown = { code: 'LOCK_UNAVAILABLE', message }
      expect(await operator.inspect('seen')).toMatchObject({ held: true })
      await expect(operator.inspect('elsewhere')).rejects.toMatchObject(unknown)
      await expect(operator.break?.('elsewhere', { owner: 'x', fence: 1n })).rejects.toMatchObject(unknown)
      // Its primary may have granted it to another client since.
      await expect(lease.release()).rejects.toMatchObject({ code: 'LOCK_LOST' })
      await expect(operator.list?.(10)).rejects.toMatchObject(unknown)
    } finally {
      await control.query('SET GLOBAL read_only = OFF')
    }
    expect(await operator.inspect('elsewhere')).toEqual({ name: 'elsewhere', held: false })
    expect(await operator.list?.(10)).toEqual([])
  },
)

test.each(['row', 'named'])('%s: nothing is held on a primary that became a replica', async (strategy) => {
  const control = await connect(server)
  // As a user that may write on a replica.
  const [holder, other] = [bare({ url: server.url, strategy }), bare({ url: server.url, strategy })]
  const [renewed, released] = [
    await holder.take(holder.request('renewed')),
    await holder.take(holder.request('released')),
  ]
  const message: unknown = expect.stringContaining('read_only is on')
  await control.query('SET GLOBAL read_only = ON')
  try {
    expect(await holder.adapter.renew([{ grant: renewed, ttlMs: 30_000, lockDelayMs: 0 }])).toEqual(['lost'])
    expect(holder.lost).toEqual([renewed.attemptId])
    expect(await holder.adapter.release(released)).toBe('not-held')
    await expect(other.adapter.attempt(other.request('new'))).rejects.toMatchObject({
      code: 'LOCK_UNAVAILABLE',
      message,
    })
  } finally {
    await control.query('SET GLOBAL read_only = OFF')
  }
  for (const name of ['renewed', 'released', 'new'])
    await eventually('it is free', async () => !(await other.adapter.inspect(name)).held)
  await other.adapter.release(await other.take(other.request('new')))
})

test('unique-key: nothing is granted or renewed on a primary that became a replica', async () => {
  const control = await connect(server)
  // As a user that may write on a replica.
  const { adapter, request, take } = bare({ url: server.url, strategy: 'unique-key' })
  const grant = await take(request('leased'))
  const renewal = { grant, ttlMs: 30_000, lockDelayMs: 0 }
  const refused = { code: 'LOCK_UNAVAILABLE', message: expect.stringContaining('read_only is on') as unknown }
  await control.query('SET GLOBAL read_only = ON')
  try {
    for (const name of ['leased', 'new'])
      await expect(adapter.attempt(request(name))).rejects.toMatchObject(refused)
    await expect(adapter.renew([renewal])).rejects.toMatchObject(refused)
    await expect(adapter.adopt?.(grant, request('leased'))).rejects.toMatchObject(refused)
    await expect(adapter.release(grant)).rejects.toMatchObject(refused)
    await expect(adapter.release(grant, 300)).rejects.toMatchObject(refused)
    await expect(adapter.break?.('leased', { owner: 'x', fence: grant.fence })).rejects.toMatchObject(refused)
  } finally {
    await control.query('SET GLOBAL read_only = OFF')
  }
  expect(await cell(control, "SELECT COUNT(*) FROM locks WHERE name = 'new'")).toBe('0')
  expect(await adapter.renew([renewal])).toEqual(['renewed'])
  expect(await adapter.release(grant)).toBe('released')
})

test('unique-key: an attempt that waits for its row while the server becomes a replica is refused', async () => {
  const [control, stranger] = [await connect(server), await connect(server)]
  const { adapter, request, take } = bare({ url: server.url, strategy: 'unique-key' })
  await adapter.release(await take(request('waited')))
  const status = "information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Innodb_row_lock_current_waits'"
  await stranger.beginTransaction()
  await stranger.query("SELECT * FROM locks WHERE name = 'waited' FOR UPDATE")
  const asked = adapter.attempt(request('waited'))
  asked.catch(() => undefined)
  await eventually(
    'it waits',
    async () => (await cell(control, `SELECT VARIABLE_VALUE FROM ${status}`)) === '1',
  )
  // The server itself waits until no statement that writes is under way.
  await control.query('SET GLOBAL read_only = ON')
  try {
    await stranger.rollback()
    await expect(asked).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    expect(await adapter.inspect('waited')).toEqual({ name: 'waited', held: false })
  } finally {
    await control.query('SET GLOBAL read_only = OFF')
  }
})

const levelOf = async (strategy: string, check: string): Promise<Finding | undefined> =>
  (await open({ url: server.url, strategy }).diagnose()).find((finding) => finding.check === check)

test.each(strategies)(
  '%s: diagnose finds nothing wrong with a server that is set up well',
  async (strategy) => {
    const control = await connect(server)
    await control.query('SET GLOBAL sync_binlog = 1')
    const findings = await findingsOf(open({ url: server.url, strategy }))
    expect(findings.filter(({ level }) => level !== 'ok')).toEqual([])
    expect(findings.find(({ check }) => check === 'server-version')?.message).toMatch(/^MariaDB \d/)
  },
)

test.each([
  ['durable-commit', 'danger', 'innodb_flush_log_at_trx_commit = 2', 'innodb_flush_log_at_trx_commit = 1'],
  ['durable-binlog', 'danger', 'sync_binlog = 0', 'sync_binlog = 1'],
  ['binlog-format', 'warning', "binlog_format = 'STATEMENT'", "binlog_format = 'MIXED'"],
  ['writable', 'warning', 'read_only = ON', 'read_only = OFF'],
  ['connections', 'warning', 'max_connections = 20', 'max_connections = 151'],
  ['idle-limit', 'warning', 'wait_timeout = 5', 'wait_timeout = 28800'],
])('diagnose reports %s as %s', async (check, level, worse, better) => {
  const control = await connect(server)
  await control.query(`SET GLOBAL ${worse}`)
  try {
    const found = await levelOf('row', check)
    expect(found?.level).toBe(level)
    expect(found?.advice).toBeTruthy()
  } finally {
    await control.query(`SET GLOBAL ${better}`)
  }
  expect((await levelOf('row', check))?.level ?? 'ok').toBe('ok')
})

test('diagnose reports missing tables and missing rights, and writes nothing', async () => {
  const control = await connect(server)
  await control.query(`CREATE USER IF NOT EXISTS reader@'%'`)
  await control.query(`GRANT SELECT ON locks.* TO reader@'%'`)
  for (const strategy of strategies)
    for (const config of [
      { url: server.url, strategy, table: 'nowhere' },
      { url: as('reader'), strategy },
    ]) {
      const findings = await open(config).diagnose()
      expect(findings.find(({ check }) => check === 'tables')).toMatchObject({ level: 'warning' })
    }
  expect(await cell(control, 'SELECT fence FROM locks_pruned')).toBe('0')
})
