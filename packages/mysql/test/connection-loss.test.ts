import { assertInTime } from '@locks/core/conformance'
import { describe, expect, test } from 'vitest'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import {
  bare,
  cell,
  commonDefaults,
  connect,
  contended,
  lossOf,
  never,
  open,
  startServer,
} from './support/setup.ts'

const server = await startServer(commonDefaults)

describe.each(['row', 'named'])('%s', (strategy) => {
  const config = { url: server.url, strategy, sessionTtlMs: scaled(3_000) }
  const holders = strategy === 'row' ? 'locks_holders' : 'locks_named'
  const threadOf = `SELECT IS_USED_LOCK(hold) FROM ${holders} WHERE name = ?`

  test('a killed connection ends its hold, the holder notices, and the next waiter gets the lock', async () => {
    const control = await connect(server)
    const lasting = { ...config, sessionTtlMs: scaled(15_000) }
    const [holder, next] = [open(lasting), open(lasting)]
    const lease = await holder.lock('killed').acquire()
    const lost = lossOf(lease)
    const waits = contended(next, 'killed')
    const turn = next.lock('killed').acquire({ waitMs: scaled(20_000) })
    await waits
    const thread = Number(await cell(control, threadOf, [Buffer.from('killed')]))
    const killedAt = performance.now()
    await control.query(`KILL CONNECTION ${thread}`)
    await assertInTime('the holder notices', lasting.sessionTtlMs / 3, (await lost) - killedAt)
    expect((await turn).fence).toBeGreaterThan(lease.fence)
  })

  test(
    'a holder that renews outlives the idle limit of the server; one that does not is ended',
    async () => {
      const aliveMs = scaled(6_000)
      const [alive, silent] = [open({ ...config, sessionTtlMs: aliveMs }), bare(config)]
      const lease = await alive.lock('idle:alive').acquire()
      const endAt = performance.now() + aliveMs
      await silent.take(silent.request('idle:silent'))
      const next = open({ ...config, sessionTtlMs: aliveMs })
      await next.with('idle:silent', { waitMs: scaled(20_000) }, () => undefined)
      await eventually('the loss is reported', () => silent.lost.length > 0)
      expect(silent.lost).toHaveLength(1)
      // Longer than it was allowed at first.
      await new Promise((resolve) => setTimeout(resolve, endAt + 500 - performance.now()))
      await lease.extend()
      await lease.release()
    },
    scaled(40_000),
  )

  test(
    'a connection that is killed before its fence is minted gets none',
    async () => {
      const [control, hand] = [await connect(server), await connect(server)]
      await hand.query(`CREATE OR REPLACE USER doomed@'%'`)
      await hand.query(`GRANT ALL PRIVILEGES ON locks.* TO doomed@'%'`)
      const lasting = { ...config, sessionTtlMs: scaled(30_000), poolSize: 1 }
      const doomed = bare({ ...lasting, url: server.url.replace('//locks@', '//doomed@') })
      const next = bare(lasting)
      const before = await next.take(next.request('unminted'))
      await next.adapter.release(before)
      await control.beginTransaction()
      await control.execute(`SELECT fence FROM ${holders} WHERE name = ? FOR UPDATE`, [
        Buffer.from('unminted'),
      ])
      const tried = doomed.adapter.attempt(doomed.request('unminted'))
      const rejected = expect(tried).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
      const of = "FROM information_schema.processlist WHERE user = 'doomed' AND"
      const minting = `SELECT COUNT(*) ${of} info LIKE 'INSERT INTO%'`
      await eventually('it mints', async () => (await cell(hand, minting)) === '1')
      // The one that holds was opened before the one that mints.
      const holding = Number(await cell(hand, `SELECT MIN(id) ${of} id > 0`))
      await hand.query(`KILL CONNECTION ${holding}`)
      const left = `SELECT COUNT(*) ${of} id = ${holding}`
      await eventually('it is gone', async () => (await cell(hand, left)) === '0')
      const turn = next.take(next.request('unminted'))
      turn.catch(() => undefined)
      const mintingNext = minting.replace('doomed', 'locks')
      await eventually('the next one mints', async () => (await cell(hand, mintingNext)) === '1')
      await control.commit()
      await rejected
      expect((await turn).fence).toBeGreaterThan(before.fence)
    },
    scaled(60_000),
  )

  test('a wait that times out as the grant arrives leaves nothing behind', async () => {
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

test('row: a transaction of another program on the row delays a try, and is neither busy nor an error', async () => {
  const control = await connect(server)
  const client = bare({ url: server.url, strategy: 'row' })
  const before = await client.take(client.request('stranger'))
  await client.adapter.release(before)
  await control.beginTransaction()
  await control.query("SELECT * FROM locks_rows WHERE name = 'stranger' FOR UPDATE")
  const tried = client.take(client.request('stranger'))
  await new Promise((resolve) => setTimeout(resolve, 500))
  await control.commit()
  expect((await tried).fence).toBeGreaterThan(before.fence)
})
