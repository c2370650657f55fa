import { Redis } from 'ioredis'
import type { RedisOptions } from '@locks/redis'
import { assertInTime } from '@locks/core/conformance'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import type { Address } from '../../../conformance/services/index.ts'
import {
  at,
  bare,
  commandCounts,
  connect,
  enqueue,
  pushedTo,
  queued,
  startProcess,
  uniqueName,
  until,
} from './support/bed.ts'

// What a user that may publish to every channel, and nothing else, can do to waiters.

const service = await startService('redis')
const cluster = await startService('redis-cluster')
afterAll(() => Promise.all([service.close(), cluster.close()]))
const server = service.server('redis')
const nodes = cluster.servers.map(({ host, port }) => ({ host, port }))

const stranger = { username: 'stranger', password: 'only-publish' }
for (const address of [server, ...nodes])
  await redisCommand(
    address,
    'ACL',
    'SETUSER',
    stranger.username,
    ...['on', `>${stranger.password}`, 'resetkeys', 'allchannels', '-@all', '+publish', '+spublish'],
  )

interface Place {
  readonly title: string
  readonly options: RedisOptions
  readonly servers: readonly Address[]
  readonly publish: 'publish' | 'spublish'
  readonly subscribe: 'subscribe' | 'ssubscribe'
  readonly channelOf: (lock: string, attempt: string) => string
}

const clientOf = (attempt: string): string => attempt.split(':')[0] ?? ''

const places: readonly Place[] = [
  {
    title: 'one server',
    options: at(server),
    servers: [server],
    publish: 'publish',
    subscribe: 'subscribe',
    channelOf: (_lock, attempt) => `locks_grants:${clientOf(attempt)}`,
  },
  {
    title: 'a Cluster',
    options: { cluster: { nodes }, prefix: '' },
    servers: nodes,
    publish: 'spublish',
    subscribe: 'ssubscribe',
    channelOf: (lock, attempt) => `locks_grants:{${lock}}:${clientOf(attempt)}`,
  },
]

/** What the one server says that has the key; the others of a Cluster say where it is. */
async function ask<T>(servers: readonly Address[], call: (address: Address) => Promise<T>): Promise<T> {
  for (const address of servers)
    try {
      return await call(address)
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('MOVED')) throw error
    }
  throw new Error('no server has that key')
}

/** A connection with the rights of the stranger, or of an administrator. */
function open({ host, port }: Address, login: Partial<typeof stranger> = {}): Redis {
  const client = new Redis({ host, port, ...login, enableReadyCheck: false, disableClientInfo: true })
  onTestFinished(() => client.disconnect())
  client.on('error', () => undefined)
  return client
}

describe.each(places)('on $title', ({ options, servers, publish, subscribe, channelOf }) => {
  async function entryOf(lock: string): Promise<string> {
    const reply = await ask(servers, (address) =>
      redisCommand(address, 'ZRANGE', `locks_queue:{${lock}}`, 0, 0),
    )
    return Array.isArray(reply) ? String(reply[0]) : ''
  }

  /** As many clients as receive it. */
  async function say(lock: string, attempt: string, text: string): Promise<unknown> {
    const channel = channelOf(lock, attempt)
    return ask(servers, (address) => open(address, stranger)[publish](channel, text))
  }

  /** Every message to the client of an attempt, from now on. */
  async function overhear(lock: string, attempt: string): Promise<readonly string[]> {
    const heard: string[] = []
    // Where the channel is not, ioredis 5.8 to 5.11 never settle a subscription.
    const address = await ask(servers, async (one) => {
      await redisCommand(one, 'EXISTS', `locks_queue:{${lock}}`)
      return one
    })
    const client = open(address)
    client.on(subscribe === 'subscribe' ? 'message' : 'smessage', (_channel, text: string) =>
      heard.push(text),
    )
    await client[subscribe](channelOf(lock, attempt))
    return heard
  }

  const looks = async (): Promise<number> => {
    const counts = await Promise.all(servers.map((address) => commandCounts(address)))
    return counts.reduce((sum, { evalsha }) => sum + (evalsha ?? 0), 0)
  }

  test('a forged grant makes no holder: its waiter looks, and waits on', async () => {
    const [holder, waiter] = [connect(options), connect(options)]
    const lock = uniqueName()
    const lease = await holder.lock(lock).acquire({ renew: false, ttlMs: 600_000 })
    let next: bigint | undefined
    const turn = waiter
      .lock(lock)
      .acquire({ waitMs: 60_000 })
      .then(({ fence }) => (next = fence))
    await queued(holder, lock)
    const [attempt = ''] = (await entryOf(lock)).split(' ')
    const forged = `${attempt} ${lease.fence + 5n} ${Date.now()}000 3600000 ${lock}`
    for (const text of [forged, `${forged} ${'0'.repeat(40)}`]) {
      const before = await looks()
      expect(await say(lock, attempt, text)).toBe(1)
      await until(async () => (await looks()) > before)
      expect(next).toBeUndefined()
      expect((await holder.inspect(lock)).holder?.fence).toBe(lease.fence)
    }
    await lease.release()
    await turn
    expect((await holder.inspect(lock)).holder?.fence).toBe(next)
    expect(next).not.toBe(lease.fence + 5n)
  })

  test('a true grant whose claim was made longer on the way is none', async () => {
    const lock = uniqueName()
    const holder = bare(options)
    const held = await holder.take(holder.request(lock))
    const first = await enqueue({ ...options, claimTtlMs: 20_000 }, lock)
    const heard = await overhear(lock, first.wanted.attemptId)
    const releasedAt = performance.now()
    await holder.adapter.release(held)
    await until(() => heard.length > 0)
    expect(await pushedTo(first, releasedAt, 20_000)).toMatchObject({ ttlMs: 20_000 })
    // It asks for the same lock once more, and gets the same message with another length.
    const again = { ...first.wanted }
    await first.adapter.release({ ...held, attemptId: again.attemptId })
    await holder.take(holder.request(lock))
    await first.adapter.attempt(again)
    const wait = first.adapter.wait?.(again, 60_000, new AbortController().signal)
    expect(heard[0]).toContain(' 20000 ')
    await say(lock, again.attemptId, (heard[0] ?? '').replace(' 20000 ', ' 9000000 '))
    expect(await wait).toBeUndefined()
  })

  test('an old grant that is said again is none after its end', async () => {
    const lock = uniqueName()
    const holder = bare(options)
    const held = await holder.take(holder.request(lock))
    const quick = { ...options, claimTtlMs: 1_000 }
    const waiting = await enqueue(quick, lock)
    const heard = await overhear(lock, waiting.wanted.attemptId)
    const { signal } = new AbortController()
    const releasedAt = performance.now()
    await holder.adapter.release(held)
    expect(await pushedTo(waiting, releasedAt, 1_000)).toMatchObject({ ttlMs: 1_000 })
    await until(async () => !(await holder.adapter.inspect(lock)).held)
    const next = await holder.take(holder.request(lock))
    await waiting.adapter.attempt(waiting.wanted)
    const wait = waiting.adapter.wait?.(waiting.wanted, 60_000, signal)
    await until(() => heard.length > 0)
    await say(lock, waiting.wanted.attemptId, heard[0] ?? '')
    expect(await wait).toBeUndefined()
    expect((await holder.adapter.inspect(lock)).holder?.fence).toBe(next.fence)
  })

  test('an old grant that is said again does not end the hold that came of it', async () => {
    const lock = uniqueName()
    const holder = bare(options)
    const held = await holder.take(holder.request(lock))
    const waiting = await enqueue(options, lock)
    const heard = await overhear(lock, waiting.wanted.attemptId)
    const { signal } = new AbortController()
    const releasedAt = performance.now()
    await holder.adapter.release(held)
    const grant = await pushedTo(waiting, releasedAt)
    const renewed = await waiting.adapter.renew([{ grant, ttlMs: 600_000, lockDelayMs: 0 }])
    await assertInTime('the renewal', { ms: 3_000, from: 'claimTtlMs' }, performance.now() - releasedAt)
    expect(renewed).toEqual(['renewed'])
    // As if it had been granted so much since that it does not remember this one.
    await waiting.adapter.release({ ...grant, name: uniqueName() })
    await until(async () => ((await holder.adapter.inspect(lock)).remainingMs ?? 0) < 596_500)
    const next = waiting.request(lock, { willWait: true })
    await waiting.adapter.attempt(next)
    const turn = waiting.adapter.wait?.(next, 60_000, signal)
    await until(() => heard.length > 0)
    await say(lock, grant.attemptId, heard[0] ?? '')
    await say(lock, next.attemptId, `${next.attemptId} 0`)
    expect(await turn).toBeUndefined()
    expect((await waiting.adapter.inspect(lock)).holder?.fence).toBe(grant.fence)
  })

  test('messages of no known form end no process, and take nothing from its waiters', async () => {
    const child = await startProcess(options)
    const [holder, lock] = [connect(options), uniqueName()]
    const lease = await holder.lock(lock).acquire({ renew: false, ttlMs: 600_000 })
    const turn = child.call('acquire', { lock, options: { waitMs: 60_000 } })
    await queued(holder, lock)
    const [attempt = ''] = (await entryOf(lock)).split(' ')
    const texts = [
      ...['', ' ', '0', 'granted x oops', '\0', '{"a":1}', 'x'.repeat(100_000), '\u{1f512}', '\r\n'],
      ...['', ' ', ' x', ' -1', ' 1e400', ' NaN', ' 999999999999999999999', ' 1 ', ' 1 2', ' 1 2 3'].map(
        (rest) => attempt + rest,
      ),
      `${attempt} 0x10 1 1 ${lock}`,
      `${attempt} 1 1 1 `,
      `${attempt} ${'9'.repeat(400)} ${'9'.repeat(400)} ${'9'.repeat(400)} ${lock} ${'f'.repeat(40)}`,
      `${attempt} -1 -1 -1 ${lock} ${'f'.repeat(40)}`,
      `hold 1 1 1 ${lock} ${'f'.repeat(40)}`,
    ]
    for (const text of texts) expect(await say(lock, attempt, text)).toBe(1)
    await lease.release()
    expect(await turn).toBeDefined()
  })

  test('a flood of hints makes its waiter look a bounded number of times', async () => {
    const [holder, waiter] = [connect(options), connect(options)]
    const lock = uniqueName()
    const lease = await holder.lock(lock).acquire({ renew: false, ttlMs: 600_000 })
    const turn = waiter.lock(lock).acquire({ waitMs: 60_000 })
    await queued(holder, lock)
    const [attempt = ''] = (await entryOf(lock)).split(' ')
    const before = await looks()
    const startedAt = performance.now()
    await ask(servers, async (address) => {
      const client = open(address, stranger)
      for (let n = 0; n < 100; n += 1)
        await Promise.all(
          Array.from({ length: 10 }, () => client[publish](channelOf(lock, attempt), `${attempt} 0`)),
        )
    })
    const seconds = (performance.now() - startedAt) / 1_000
    expect((await looks()) - before).toBeLessThanOrEqual(2 + Math.ceil(seconds * 20))
    // A hint to look later never puts off what is due earlier.
    await say(lock, attempt, `${attempt} 999999999`)
    await lease.release()
    await (await turn).release()
  })
})
