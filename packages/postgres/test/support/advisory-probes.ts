import { systemClock } from '@locks/core/adapter'
import type { Clock } from '@locks/core/adapter'
import { eventually, inTime, startFaultProxy } from '@locks/core/conformance'
import type { FaultProxy } from '@locks/core/conformance'
import { expect, onTestFinished } from 'vitest'
import type { Server } from '../../../../conformance/services/index.ts'
import { bareAdapter } from '../../../../conformance/test-support/bare-adapter.ts'
import { HandClock } from '../../../../conformance/test-support/hand-clock.ts'
import type { SqlAdapter } from '../../../sql/test/support/mutant.ts'
import { connect, never } from './setup.ts'

interface AdvisoryBed {
  readonly adapter: SqlAdapter
  readonly config: { readonly url: string; readonly schema: string }
}

type AdvisoryProbe = (bed: AdvisoryBed) => Promise<void>

const strategy = 'advisory'
const renewal = { ttlMs: 1_000, lockDelayMs: 0 }

export const twice: AdvisoryProbe = async ({ adapter: { fromConfig }, config }) => {
  const client = bareAdapter(fromConfig({ ...config, strategy }))
  await client.take(client.request('twice'))
  expect(await client.adapter.attempt(client.request('twice'))).toMatchObject({ busy: true })
}

export const expired: AdvisoryProbe = async ({ adapter: { fromConfig }, config }) => {
  const [client, other] = [1, 2].map(() => bareAdapter(fromConfig({ ...config, strategy })))
  if (client === undefined || other === undefined) throw new Error('no clients')
  const kept = await client.take(client.request('kept'))
  await client.take(client.request('expired', { ttlMs: 500 }))
  await eventually('it has expired', 1_500, async () => {
    expect(await client.adapter.renew([{ grant: kept, ttlMs: kept.ttlMs, lockDelayMs: 0 }])).toEqual([
      'renewed',
    ])
    return 'fence' in (await other.adapter.attempt(other.request('expired')))
  })
}

export const ended =
  (server: Server): AdvisoryProbe =>
  async ({ adapter: { fromConfig }, config }) => {
    const control = await connect(server)
    const lost: unknown[] = []
    const report = (state: string, attemptId?: string): void =>
      void (state === 'lost' && lost.push(attemptId))
    const client = bareAdapter(fromConfig({ ...config, strategy }), { report })
    const { attemptId } = await client.take(client.request('ended'))
    await control.query(
      `SELECT pg_terminate_backend(pid) FROM "${config.schema}".locks_holders WHERE pid IS NOT NULL`,
    )
    await eventually('the loss is reported', 1_000, () => Promise.resolve(lost.includes(attemptId)))
  }

/** A probe that unlocks what its session has: nothing else can do that from outside. */
export const unlocked =
  (server: Server): AdvisoryProbe =>
  async ({ adapter: { fromConfig }, config }) => {
    const control = await connect(server)
    const trap = `${config.schema}_trap`
    await control.query(`CREATE SCHEMA ${trap}`)
    const options = encodeURIComponent(`-c search_path=${trap},pg_catalog,public`)
    const url = `${config.url}?options=${options}`
    const client = bareAdapter(fromConfig({ ...config, url, strategy }))
    const grant = await client.take(client.request('unlocked'))
    await control.query(`CREATE FUNCTION ${trap}.set_config(text, text, boolean) RETURNS text LANGUAGE plpgsql AS
      'BEGIN PERFORM pg_advisory_unlock_all(); RETURN NULL; END'`)
    expect(await client.adapter.renew([{ grant, ...renewal }])).toEqual(['renewed'])
    expect(await client.adapter.release(grant)).toBe('not-held')
  }

/** Stops the backend that holds a name, until the test ends or the returned function is called. */
export async function stopHolder(server: Server, schema: string, name: string): Promise<() => Promise<void>> {
  const control = await connect(server)
  const { rows } = await control.query<{ pid: number }>(
    `SELECT pid FROM "${schema}".locks_holders WHERE name = $1`,
    [Buffer.from(name)],
  )
  const [row] = rows
  if (row === undefined) throw new Error(`nobody holds ${name}`)
  await server.signal(row.pid, 'SIGSTOP')
  const resume = (): Promise<void> => server.signal(row.pid, 'SIGCONT')
  onTestFinished(resume)
  return resume
}

/** Waiters whose ttl passes while they wait stay in the queue, each on the connection it has. */
export const patient =
  (server: Server): AdvisoryProbe =>
  async ({ adapter: { fromConfig }, config }) => {
    const control = await connect(server)
    const waiting = async (): Promise<number[]> => {
      const text = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted ORDER BY pid"
      return (await control.query<{ pid: number }>(text)).rows.map(({ pid }) => pid)
    }
    const holder = bareAdapter(fromConfig({ ...config, strategy }))
    const held = await holder.take(holder.request('patient'))
    const clock = new HandClock()
    const order: number[] = []
    const queue = []
    for (let n = 0; n < 3; n += 1) {
      const client = bareAdapter(fromConfig({ ...config, strategy }), { clock })
      const request = client.request('patient', { ttlMs: 5_000, willWait: true })
      expect(await client.adapter.attempt(request)).toMatchObject({ busy: true })
      await eventually('it waits', 5_000, async () => (await waiting()).length === n + 1)
      const taking = async (): Promise<unknown> => {
        const grant = await client.adapter.wait?.(request, 60_000, never)
        order.push(n)
        return grant && client.adapter.release(grant)
      }
      const turn = taking()
      turn.catch(() => undefined)
      queue.push({ client, request, turn })
    }
    const before = await waiting()
    clock.move(6_000)
    for (const { client, request } of queue)
      expect(await client.adapter.attempt(request)).toMatchObject({ busy: true })
    expect(await waiting()).toEqual(before)
    await holder.adapter.release(held)
    expect(await Promise.all(queue.map(({ turn }) => turn))).toEqual(['released', 'released', 'released'])
    expect(order).toEqual([0, 1, 2])
  }

/** While the server does not answer the unlock, a second release does not call the name free. */
export const unanswered =
  (server: Server): AdvisoryProbe =>
  async ({ adapter: { fromConfig }, config }) => {
    const [client, witness] = [1, 2].map(() => bareAdapter(fromConfig({ ...config, strategy })))
    if (client === undefined || witness === undefined) throw new Error('no clients')
    const grant = await client.take(client.request('unanswered'))
    await client.take(client.request('beside it'))
    const resume = await stopHolder(server, config.schema, 'unanswered')
    const first = client.adapter.release(grant)
    first.catch(() => undefined)
    await new Promise<void>((done) => systemClock.afterPoll?.(done))
    const unknown = { code: 'LOCK_UNAVAILABLE' }
    await expect(client.adapter.release(grant)).rejects.toMatchObject(unknown)
    expect(await witness.adapter.attempt(witness.request('unanswered'))).toMatchObject({ busy: true })
    await resume()
    expect(await first).toBe('released')
    expect(await client.adapter.release(grant)).toBe('not-held')
    await witness.take(witness.request('unanswered'))
  }

/** Nothing has to be waited for as long as it says. */
const hasty: Clock = { ...systemClock, timer: (ms, fire) => systemClock.timer(ms / 10, fire) }

async function proxied({ host, port }: Server): Promise<FaultProxy> {
  const proxy = await startFaultProxy({ host, port })
  onTestFinished(() => proxy.close())
  return proxy
}

/** A connection that was opened for a try, and is not needed any more, is there for a waiter. */
export const spared =
  (server: Server): AdvisoryProbe =>
  async ({ adapter: { fromConfig }, config }) => {
    const [proxy, slow] = [await proxied(server), await proxied(server)]
    slow.delay(60_000)
    const url = config.url.replace(`${server.host}:${server.port}`, `${proxy.host}:${proxy.port}`)
    const limits = { maxConnections: 2, poolSize: 1 }
    const client = bareAdapter(fromConfig({ ...config, ...limits, url, strategy }), { clock: hasty })
    await client.take(client.request('kept'))
    const grant = await client.take(client.request('wanted'))
    // Without a holder the name is tried, on another connection than the one that has it.
    const control = await connect(server)
    await control.query(`DELETE FROM "${config.schema}".locks_holders WHERE name = 'wanted'`)
    proxy.retarget(slow)
    const late = client.adapter.attempt(client.request('wanted'))
    late.catch(() => undefined)
    await eventually('a connection is opened', 5_000, () => Promise.resolve(slow.stats.connections === 1))
    expect(await client.adapter.release(grant)).toBe('released')
    slow.pass()
    expect(await inTime('it is granted', 5_000, late)).toHaveProperty('fence')
    const other = bareAdapter(fromConfig({ ...config, strategy }))
    await other.take(other.request('held'))
    const waiter = client.request('held', { willWait: true })
    expect(await client.adapter.attempt(waiter)).toMatchObject({ busy: true })
  }
