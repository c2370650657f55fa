import { createLocks, isLockError } from '@locks/core'
import { assertInTime } from '@locks/core/conformance'
import type { TestAdapter } from '@locks/core/conformance'
import { fromConfig, migrate } from '@locks/mysql'
import { createPool } from 'mysql2/promise'
import { describe, expect, onTestFinished, test } from 'vitest'
import { scaled } from '../../../conformance/services/timing.ts'
import { bare, cell, connect, contended, lossOf, never, open, startServer } from './setup.ts'

// What servers are found with: no strict mode, an impatient idle limit, a collation that takes much for the same.
const server = await startServer({
  'max-connections': 200,
  'sql-mode': '',
  'wait-timeout': 3,
  'collation-server': 'utf8mb4_general_ci',
})
const strategies = ['unique-key', 'row', 'named'] as const
const configOf = (strategy: string): { url: string; strategy: string } => ({ url: server.url, strategy })

describe.each(strategies)('%s', (strategy) => {
  const config = configOf(strategy)

  const meet = async (clients: readonly TestAdapter[], lock: string): Promise<void> => {
    const answers = await Promise.all(clients.map(({ adapter, request }) => adapter.attempt(request(lock))))
    const [won, ...more] = answers.filter((answer) => 'fence' in answer)
    expect(more).toEqual([])
    expect(won?.fence).toBe(1n)
    const winner = clients[answers.findIndex((answer) => answer === won)]
    if (won !== undefined) expect(await winner?.adapter.release(won)).toBe('released')
  }

  test(
    'two clients on a missing row, a thousand times: no deadlock reaches them',
    async () => {
      const clients = [bare(config), bare(config)]
      // Neighbours in the index at the same time: a gap lock is one on them too.
      for (let round = 0; round < 100; round += 1)
        await Promise.all(Array.from({ length: 10 }, (_, n) => meet(clients, `trap-1:${round}:${n}`)))
    },
    scaled(240_000),
  )

  test(
    "two clients on a missing row in the caller's pool, at the server's isolation level: no deadlock reaches them",
    async () => {
      const clients = [1, 2].map(() => {
        const pool = createPool({ uri: server.url, connectionLimit: 5 })
        onTestFinished(() => pool.end())
        return bare({ pool, strategy })
      })
      for (let round = 0; round < 20; round += 1)
        await Promise.all(Array.from({ length: 10 }, (_, n) => meet(clients, `trap-1:pool:${round}:${n}`)))
    },
    scaled(120_000),
  )

  test('names that a collation takes for the same are different locks', async () => {
    const locks = open(config)
    const names = ['lock', 'LOCK', 'lock ', 'löck', 'lo\u0308ck', 'lock\t', 'Lock\0']
    const leases = await Promise.all(names.map((name) => locks.lock(name).tryAcquire()))
    expect(leases.every((lease) => lease !== null)).toBe(true)
    for (const lease of leases) await lease?.release()
  })

  test('a pool recovers after the server closed its idle connections', async () => {
    const locks = open(config)
    await locks.with('trap-8:idle', () => undefined)
    await new Promise((resolve) => setTimeout(resolve, 3_500))
    await locks.with('trap-8:idle', () => undefined)
  })
})

describe.each(['row', 'named'])('%s', (strategy) => {
  const config = { ...configOf(strategy), sessionTtlMs: scaled(3_000) }
  const holders = strategy === 'row' ? 'locks_holders' : 'locks_named'
  const threadOf = `SELECT IS_USED_LOCK(hold) FROM ${holders} WHERE name = ?`

  test('killing a connection ends its hold: the holder notices and the next client gets the lock', async () => {
    const control = await connect(server)
    const lasting = { ...config, sessionTtlMs: scaled(15_000) }
    const [holder, next] = [open(lasting), open(lasting)]
    const lease = await holder.lock('trap-8').acquire()
    const lost = lossOf(lease)
    const waits = contended(next, 'trap-8')
    const turn = next.lock('trap-8').acquire({ waitMs: scaled(20_000) })
    await waits
    const thread = Number(await cell(control, threadOf, [Buffer.from('trap-8')]))
    const killedAt = performance.now()
    await control.query(`KILL CONNECTION ${thread}`)
    await assertInTime('the holder learns of it', lasting.sessionTtlMs / 3, (await lost) - killedAt)
    expect((await turn).fence).toBe(lease.fence + 1n)
  })

  test(
    "keep-alives let a holder outlive the server's idle limit; without them it loses the lock",
    async () => {
      const aliveMs = scaled(6_000)
      const [alive, silent] = [open({ ...config, sessionTtlMs: aliveMs }), bare(config)]
      const lease = await alive.lock('trap-8:alive').acquire()
      const endAt = performance.now() + aliveMs
      await silent.take(silent.request('trap-8:silent'))
      const next = open({ ...config, sessionTtlMs: aliveMs })
      await next.with('trap-8:silent', { waitMs: scaled(20_000) }, () => undefined)
      await expect.poll(() => silent.lost, { timeout: scaled(5_000) }).toHaveLength(1)
      // Beyond what it was allowed at first.
      await new Promise((resolve) => setTimeout(resolve, endAt + 500 - performance.now()))
      await lease.extend()
      await lease.release()
    },
    scaled(40_000),
  )

  test(
    'a connection killed before its fence is minted gets no fence',
    async () => {
      const [control, hand] = [await connect(server), await connect(server)]
      await hand.query(`CREATE OR REPLACE USER doomed@'%'`)
      await hand.query(`GRANT ALL PRIVILEGES ON locks.* TO doomed@'%'`)
      const lasting = { ...config, sessionTtlMs: scaled(30_000), poolSize: 1 }
      const doomed = bare({ ...lasting, url: server.url.replace('//locks@', '//doomed@') })
      const next = bare(lasting)
      await next.adapter.release(await next.take(next.request('unminted')))
      await control.beginTransaction()
      await control.execute(`SELECT fence FROM ${holders} WHERE name = ? FOR UPDATE`, [
        Buffer.from('unminted'),
      ])
      const tried = doomed.adapter.attempt(doomed.request('unminted'))
      const rejected = expect(tried).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
      const of = "FROM information_schema.processlist WHERE user = 'doomed' AND"
      const minting = `SELECT COUNT(*) ${of} info LIKE 'INSERT INTO%'`
      await expect.poll(() => cell(hand, minting), { timeout: scaled(10_000) }).toBe('1')
      // The one that holds was opened before the one that mints.
      const holding = Number(await cell(hand, `SELECT MIN(id) ${of} id > 0`))
      await hand.query(`KILL CONNECTION ${holding}`)
      const left = `SELECT COUNT(*) ${of} id = ${holding}`
      await expect.poll(() => cell(hand, left), { timeout: scaled(10_000) }).toBe('0')
      const turn = next.take(next.request('unminted'))
      await expect
        .poll(() => cell(hand, minting.replace('doomed', 'locks')), { timeout: scaled(10_000) })
        .toBe('1')
      await control.commit()
      await rejected
      expect(await turn).toMatchObject({ fence: 2n })
    },
    scaled(60_000),
  )

  test('a wait that is over as the grant lands leaves nothing behind', async () => {
    const [holder, waiter] = [bare(config), bare(config)]
    for (let round = 0; round < 20; round += 1) {
      const lock = `landing:${round}`
      const held = await holder.take(holder.request(lock))
      const request = waiter.request(lock, { willWait: true })
      await waiter.adapter.attempt(request)
      const waiting = waiter.adapter.wait?.(request, 1 + (round % 5), never)
      await Promise.all([waiting, holder.adapter.release(held)])
      await waiter.adapter.withdraw(request)
      await holder.adapter.release(await holder.take(holder.request(lock)))
    }
  })
})

test("row: a stranger's transaction on the row delays a try, and is neither busy nor an error", async () => {
  const control = await connect(server)
  const client = bare(configOf('row'))
  await client.adapter.release(await client.take(client.request('stranger')))
  await control.beginTransaction()
  await control.query("SELECT * FROM locks_rows WHERE name = 'stranger' FOR UPDATE")
  const tried = client.take(client.request('stranger'))
  await new Promise((resolve) => setTimeout(resolve, 500))
  await control.commit()
  expect((await tried).fence).toBe(2n)
})

test('a value that does not fit is an error, neither hidden nor truncated', async () => {
  const control = await connect(server)
  await migrate({ url: server.url, table: 'narrow' })
  await control.query('ALTER TABLE narrow MODIFY name VARBINARY(10) NOT NULL')
  const locks = open({ ...configOf('unique-key'), table: 'narrow' })
  for (const name of ['0123456789a', '0123456789b']) {
    const error = await locks
      .lock(name)
      .tryAcquire()
      .catch((reason: unknown) => reason)
    expect(isLockError(error, 'LOCK_UNAVAILABLE')).toBe(true)
  }
  expect(await cell(control, 'SELECT COUNT(*) FROM narrow')).toBe('0')
})

test('named locks accept every name, and repeated attempts hold once', async () => {
  const config = configOf('named')
  const client = bare(config)
  const names = ['x'.repeat(1_024), 'X'.repeat(1_024), `${'x'.repeat(1_023)}y`]
  const grants = await Promise.all(names.map((name) => client.take(client.request(name))))
  // GET_LOCK itself would grant it once more to the same connection.
  expect(await client.adapter.attempt(client.request(names[0] ?? ''))).toMatchObject({ busy: true })
  for (const grant of grants) expect(await client.adapter.release(grant)).toBe('released')
  for (const name of names) expect((await client.adapter.inspect(name)).held).toBe(false)
  const control = await connect(server)
  expect(
    await cell(control, "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'"),
  ).toBe('0')
})

test('a named lock does not block a session that inserts a row of the same name', async () => {
  const [named, row] = [bare(configOf('named')), bare(configOf('row'))]
  const control = await connect(server)
  // As if the one took over from the other, with clients of both still there.
  for (const client of [named, row]) {
    await control.query('DELETE FROM locks_strategy')
    await client.take(client.request('first'))
  }
  for (let round = 0; round < 5; round += 1) {
    const lock = `both:${round}`
    const grants = [await named.take(named.request(lock)), await row.take(row.request(lock))]
    expect(grants.map(({ fence }) => fence)).toEqual([1n, 1n])
  }
})

test('a wait for a named lock whose answer is NULL is neither a grant nor "busy"', async () => {
  const config = configOf('named')
  const [holder, waiter] = [bare(config), bare(config)]
  const held = await holder.take(holder.request('trap-5'))
  const request = waiter.request('trap-5', { willWait: true })
  await waiter.adapter.attempt(request)
  const control = await connect(server)
  const waiting = waiter.adapter.wait?.(request, scaled(60_000), never).catch((error: unknown) => error)
  const waits = "SELECT id FROM information_schema.processlist WHERE state = 'User lock' LIMIT 1"
  await expect.poll(() => cell(control, waits), { timeout: scaled(10_000) }).not.toBe('')
  await control.query(`KILL QUERY ${Number(await cell(control, waits))}`)
  const outcome = await waiting
  expect(outcome === undefined || isLockError(outcome, 'LOCK_UNAVAILABLE')).toBe(true)
  await waiter.adapter.withdraw(request)
  await holder.adapter.release(held)
})

test.each(strategies)(
  '%s does not depend on the count of changed rows, on a pool that reports them',
  async (strategy) => {
    const pool = createPool({ uri: server.url, flags: ['-FOUND_ROWS'], connectionLimit: 1 })
    onTestFinished(() => pool.end())
    const locks = createLocks(fromConfig({ pool, strategy }))
    onTestFinished(() => locks.close())
    const other = open(configOf(strategy))
    for (let n = 0; n < 5; n += 1) {
      const lease = await locks.lock('trap-6').acquire()
      await Promise.all([lease.extend(), lease.extend()])
      expect(await other.lock('trap-6').tryAcquire()).toBeNull()
      await lease.release()
    }
  },
)

test('without notifications waiters poll with back-off, and all of them get the lock', async () => {
  const clients = Array.from({ length: 6 }, () => open(configOf('unique-key')))
  expect(clients[0]?.capabilities).toMatchObject({ wait: 'poll', fairness: 'none' })
  const fences: bigint[] = []
  await Promise.all(
    clients.map((locks) =>
      locks.with('trap-9', { waitMs: scaled(30_000) }, ({ fence }) => void fences.push(fence)),
    ),
  )
  expect(fences).toEqual([1n, 2n, 3n, 4n, 5n, 6n])
})
