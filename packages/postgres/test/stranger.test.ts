import { createHash } from 'node:crypto'
import { migrate } from '@locks/postgres'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { eventually, scaled } from '../../../conformance/services/timing.ts'
import { lockOf } from '../src/advisory-sql.ts'
import { nameKeyOf } from '../src/name-key.ts'
import { bare, connect, contended, never, open, startServer } from './support/setup.ts'

// A role that may log in, without rights on the schema, its tables or its functions. NOTIFY and LISTEN need none.
const server = await startServer({ shared_preload_libraries: 'pg_stat_statements' })
const place = { url: server.url, schema: 'vault' }
await migrate(place)

async function strangerOf(role: string): Promise<Client> {
  const control = await connect(server)
  await control.query(`CREATE ROLE ${role} LOGIN`)
  const client = new Client({ connectionString: server.url.replace('postgres@', `${role}@`) })
  await client.connect()
  onTestFinished(() => client.end())
  const forbidden = { code: '42501' }
  await expect(client.query('SELECT FROM vault.locks')).rejects.toMatchObject(forbidden)
  await expect(client.query("SELECT vault.locks_release('a', 'b')")).rejects.toThrow(/vault/)
  return client
}

/** Every role can read the keys that listeners hold, and their channels are named after these. */
async function channels(stranger: Client): Promise<readonly string[]> {
  const { rows } = await stranger.query<{ key: string }>(
    `SELECT ((classid::bigint << 32) | objid::bigint)::text AS key FROM pg_locks
     WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND mode = 'ExclusiveLock'`,
  )
  return rows.map(({ key }) => `locks_${key}`)
}

async function tell(stranger: Client, payload: string): Promise<void> {
  for (const channel of await channels(stranger))
    await stranger.query('SELECT pg_notify($1, $2)', [channel, payload])
}

/** What a message calls an attempt. */
const tagOf = (attemptId: string): string => createHash('sha256').update(attemptId).digest('hex').slice(0, 32)

/** Grants written with everything but the secret. */
function forgeries(attemptId: string, fence: bigint): readonly string[] {
  const rest = `${fence} 3600000 ${Date.now()}`
  const proof = createHash('sha256').update(rest).digest('hex')
  return [
    `granted ${attemptId} ${rest}`,
    `granted ${attemptId} ${rest} ${proof}`,
    `granted ${tagOf(attemptId)} ${rest}`,
    `granted ${tagOf(attemptId)} ${rest} ${proof}`,
  ]
}

test('a grant that a stranger announces does not count', async () => {
  const stranger = await strangerOf('forger')
  const [holder, waiter] = [bare(place), bare(place)]
  const held = await holder.take(holder.request('forged'))
  const request = waiter.request('forged', { willWait: true })
  expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
  for (const payload of forgeries(request.attemptId, held.fence + 1n)) {
    const wait = waiter.adapter.wait?.(request, 1_000, never)
    await tell(stranger, payload)
    expect(await wait).toBeUndefined()
  }
  expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
  await holder.adapter.release(held)
  expect(await waiter.adapter.wait?.(request, scaled(10_000), never)).toMatchObject({
    fence: held.fence + 1n,
    ttlMs: 3_000,
  })
})

test('a malformed message is ignored, and the next real one is not', async () => {
  const stranger = await strangerOf('babbler')
  const [holder, waiter] = [open(place), open(place)]
  const lease = await holder.lock('babble').acquire()
  const waits = contended(waiter, 'babble')
  const turn = waiter.lock('babble').acquire({ waitMs: scaled(20_000) })
  await waits
  const odd = [
    '',
    'granted',
    'granted x oops',
    'granted x 1.5 1 1',
    'granted x -1 1e9 NaN',
    'next',
    'next x oops',
  ]
  for (const payload of [...odd, 'granted '.repeat(900), '\u0001', '🔒']) await tell(stranger, payload)
  await lease.release()
  expect((await turn).fence).toBe(lease.fence + 1n)
})

test('a repeated message grants nothing', async () => {
  const stranger = await strangerOf('eavesdropper')
  const [holder, waiter] = [bare(place), bare(place)]
  const heard: string[] = []
  stranger.on('notification', ({ payload }) => void heard.push(payload ?? ''))
  const held = await holder.take(holder.request('replayed'))
  const request = waiter.request('replayed', { willWait: true })
  expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
  for (const channel of await channels(stranger)) await stranger.query(`LISTEN "${channel}"`)
  await holder.adapter.release(held)
  const granted = await waiter.adapter.wait?.(request, scaled(10_000), never)
  expect(granted).toMatchObject({ fence: held.fence + 1n })
  await eventually('it is overheard', () => heard.length > 0)
  expect(heard.join()).not.toContain(request.attemptId)
  // The hold ends, another client has the name, and the same attempt waits again.
  const { holder: by } = await holder.adapter.inspect('replayed')
  if (by === undefined) throw new Error('nobody holds it')
  expect(await holder.adapter.break?.('replayed', by)).toBe('broken')
  await holder.take(holder.request('replayed'))
  expect(await waiter.adapter.attempt(request)).toMatchObject({ busy: true })
  const wait = waiter.adapter.wait?.(request, 1_000, never)
  for (const payload of [...heard]) await tell(stranger, payload)
  expect(await wait).toBeUndefined()
})

test('a flood of messages does not cause a flood of statements', async () => {
  const stranger = await strangerOf('flooder')
  const control = await connect(server)
  await control.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements')
  const attempts = async (): Promise<number> => {
    const text =
      "SELECT coalesce(sum(calls), 0)::int AS n FROM pg_stat_statements WHERE query LIKE '%locks_attempt%'"
    return (await control.query<{ n: number }>(text)).rows[0]?.n ?? NaN
  }
  const [holder, waiter] = [open(place), open(place)]
  const lease = await holder.lock('flood').acquire()
  const waits = contended(waiter, 'flood')
  const turn = waiter.lock('flood').acquire({ waitMs: scaled(30_000) })
  await waits
  const waiting = "SELECT attempt FROM vault.locks_waiters WHERE name = 'flood'"
  const { rows } = await control.query<{ attempt: string }>(waiting)
  const id = rows[0]?.attempt ?? ''
  const [before, startedAt] = [await attempts(), performance.now()]
  while (performance.now() - startedAt < 3_000)
    for (const payload of [...forgeries(id, 99n), `next ${id} 0`, `next ${tagOf(id)} 0`])
      await tell(stranger, payload)
  const more = (await attempts()) - before
  // Once a second at most.
  expect(more).toBeLessThanOrEqual((performance.now() - startedAt) / 1_000 + 2)
  await lease.release()
  expect((await turn).fence).toBe(lease.fence + 1n)
})

/** What is answered to a call about an advisory lock: whether it took effect. */
async function advisory(stranger: Client, call: string, key: string): Promise<boolean> {
  const { rows } = await stranger.query<{ done: boolean }>(`SELECT ${call}($1::bigint) AS done`, [key])
  return rows[0]?.done ?? false
}

/** Tries to take and to free every advisory lock that is visible, in both modes. Keeps what it gets. */
async function meddle(stranger: Client, keys: readonly string[]): Promise<readonly string[]> {
  const { rows } = await stranger.query<{ key: string }>(
    `SELECT DISTINCT ((classid::bigint << 32) | objid::bigint)::text AS key FROM pg_locks
     WHERE locktype = 'advisory' AND objsubid = 1`,
  )
  const got: string[] = []
  for (const key of new Set([...keys, ...rows.map((row) => row.key)])) {
    for (const call of ['pg_advisory_unlock', 'pg_advisory_unlock_shared'])
      expect(await advisory(stranger, call, key), call).toBe(false)
    for (const call of ['pg_try_advisory_lock', 'pg_try_advisory_lock_shared'])
      if (await advisory(stranger, call, key)) got.push(key)
  }
  return got
}

const freeAll = (stranger: Client): Promise<unknown> => stranger.query('SELECT pg_advisory_unlock_all()')

test('with unique-key, a stranger with advisory locks neither ends a hold nor keeps a waiter out', async () => {
  const stranger = await strangerOf('locker')
  const [holder, waiter] = [open(place), open(place)]
  const lease = await holder.lock('locked').acquire()
  const waits = contended(waiter, 'locked')
  const turn = waiter.lock('locked').acquire({ waitMs: scaled(20_000) })
  await waits
  const keyOfName = { schema: 'vault', table: 'locks' }
  await meddle(stranger, [lockOf(keyOfName, 'locked'), nameKeyOf(keyOfName, 'locked')])
  await lease.extend()
  expect(await open(place).lock('locked').tryAcquire()).toBeNull()
  await lease.release()
  expect((await turn).fence).toBe(lease.fence + 1n)
})

test.each([
  ['advisory', lockOf],
  ['row', nameKeyOf],
] as const)(
  'with %s, a stranger can keep everybody from a name, and makes no second holder',
  async (strategy, keyOf) => {
    const table = `locks_${strategy}`
    const own = { url: server.url, schema: 'vault', table, strategy }
    await migrate(own)
    const stranger = await strangerOf(`locker_${strategy}`)
    // With `advisory` a name that a stranger has is an outage for as long as that.
    const options = strategy === 'row' ? {} : { storeTimeoutMs: 1_000 }
    const [holder, other] = [open(own, options), open(own, options)]
    const key = keyOf({ schema: 'vault', table }, 'name')

    const lease = await holder.lock('name').acquire()
    const got = await meddle(stranger, [key])
    await lease.extend()
    expect(await other.lock('name').tryAcquire()).toBeNull()
    await freeAll(stranger)
    await lease.release()
    // Beside a holder of `row` it can share the key of the name.
    expect(got.filter((one) => one === key)).toHaveLength(strategy === 'row' ? 1 : 0)

    expect(await advisory(stranger, 'pg_try_advisory_lock', key)).toBe(true)
    for (const locks of [holder, other]) {
      const outcome = await locks
        .lock('name')
        .tryAcquire()
        .catch((error: unknown) => error)
      if (strategy === 'row') expect(outcome).toBeNull()
      else expect(outcome).toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    }
    await freeAll(stranger)
    const next = await other.lock('name').acquire({ waitMs: scaled(20_000) })
    expect(next.fence).toBeGreaterThan(lease.fence)
    expect(await holder.lock('name').tryAcquire()).toBeNull()
  },
)
