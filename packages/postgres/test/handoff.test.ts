import { assertInTime, startChild } from '@locks/core/conformance'
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { scope } from '../../../conformance/selection.ts'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { connect, contended, open, startServer } from './support/setup.ts'

const server = await startServer({ max_connections: 600, shared_preload_libraries: 'pg_stat_statements' })
const processes = 4

/** How many statements clients have sent so far, without those of this count. */
async function counter(): Promise<() => Promise<number>> {
  const control: Client = await connect(server)
  await control.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements')
  const text = `SELECT coalesce(sum(calls), 0)::int AS calls FROM pg_stat_statements
    WHERE query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE 'LISTEN%' AND query NOT LIKE '%pg_advisory_lock(%'`
  return async () => (await control.query<{ calls: number }>(text)).rows[0]?.calls ?? NaN
}

async function tell(child: ChildProcess, message: string): Promise<void> {
  const answer = once(child, 'message')
  const gone = once(child, 'exit').then(() => Promise.reject(new Error('a waiting process ended')))
  gone.catch(() => undefined)
  child.send(message)
  await Promise.race([answer, gone])
}

test('a name costs two statements, whether it is used once or again', async () => {
  const calls = await counter()
  const locks = open({ url: server.url })
  await locks.with('warm-up', () => undefined)
  const cost = async (names: readonly string[]): Promise<number> => {
    const before = await calls()
    for (const name of names) await locks.with(name, () => undefined)
    return (await calls()) - before
  }
  const names = Array.from({ length: 20 }, (_, n) => `order:${n}`)
  expect(await cost(names)).toBe(40)
  expect(await cost(names)).toBe(40)
})

test.each(scope() === 'all' ? [10, 50, 200] : [10, 50])(
  'a contended cycle costs two statements, with %i waiters',
  async (waiters) => {
    const calls = await counter()
    const lock = `crowd:${waiters}`
    const cycles = Math.max(2, Math.ceil(200 / waiters))
    const children = Array.from({ length: processes }, (_, n) => {
      const clients = Math.floor(waiters / processes) + (n < waiters % processes ? 1 : 0)
      const args = [server.url, String(clients), String(cycles), lock]
      const child = fork(join(import.meta.dirname, 'waiters.fixture.mjs'), args, { execArgv: [] })
      onTestFinished(() => void child.kill('SIGKILL'))
      return child
    })
    const holder = open({ url: server.url })
    const lease = await holder.lock(lock).acquire()
    await Promise.all(children.map((child) => tell(child, 'wait')))

    const quietFrom = await calls()
    const quietMs = 3_000
    await new Promise((resolve) => setTimeout(resolve, quietMs))
    const quiet = (await calls()) - quietFrom
    // The holder renews every 10 s at most; waiters look at the store every 30 s.
    expect(quiet / processes / (quietMs / 1_000)).toBeLessThan(1)

    const before = await calls()
    await lease.release()
    await Promise.all(children.map((child) => tell(child, 'end')))
    // Their first attempts came before; the first release is that of the test.
    const perCycle = ((await calls()) - before + waiters) / (waiters * cycles + 1)
    console.log(
      `${waiters} waiters in ${processes} processes: ${perCycle.toFixed(2)} statements per cycle, ` +
        `${quiet} in ${quietMs} ms of waiting`,
    )
    expect(perCycle).toBeLessThanOrEqual(2.2)
  },
  scaled(240_000),
)

test('killed waiters cost no time, a stopped one costs at most its claim', async () => {
  const claimTtlMs = scaled(2_000)
  const config = { adapter: '@locks/postgres', url: server.url, claimTtlMs }
  const holder = open({ url: server.url })
  const lease = await holder.lock('dead').acquire()
  const control = await connect(server)
  const queued = async (): Promise<number> => {
    const text = "SELECT count(*)::int AS n FROM locks_waiters WHERE name = 'dead'"
    return (await control.query<{ n: number }>(text)).rows[0]?.n ?? NaN
  }
  const children = []
  for (let n = 0; n < 4; n += 1) {
    const child = await startChild()
    onTestFinished(() => child.kill())
    await child.call('open', { config, options: {} })
    void child.call('acquire', { lock: 'dead', options: { waitMs: 60_000 } }).catch(() => undefined)
    await eventually('it waits', async () => (await queued()) === n + 1)
    children.push(child)
  }
  const last = open({ url: server.url })
  const waits = contended(last, 'dead')
  const turn = last.lock('dead').acquire({ waitMs: scaled(30_000) })
  await waits
  const [first, ...others] = children
  first?.pause()
  await Promise.all(others.map((child) => child.kill()))
  // The server notices when it next reads from their sockets.
  const text = "SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory'"
  await eventually('the dead are gone', async () => {
    const { rows } = await control.query<{ n: number }>(text)
    return (rows[0]?.n ?? NaN) <= 2
  })
  const releasedAt = performance.now()
  await lease.release()
  const next = await turn
  const tookMs = performance.now() - releasedAt
  console.log(
    `one stopped and three killed waiters ahead: ${Math.round(tookMs)} ms, the claim is ${claimTtlMs}`,
  )
  await assertInTime('granted to the next', claimTtlMs + 1_500, tookMs)
  expect(next.fence).toBe(lease.fence + 2n)
})
