import { createLocks, isLockError } from '@locks/core'
import { eventually } from '@locks/core/conformance'
import { redis } from '@locks/redis'
import { Redis } from 'ioredis'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import {
  currentPrimary,
  redisCommand,
  sentinelPrimaryName,
  startService,
} from '../../../conformance/services/index.ts'
import type { Address, Service } from '../../../conformance/services/index.ts'
import { bare, connect, proxied, uniqueName, until } from './support/bed.ts'
import { mutate } from './support/mutate.ts'
import type { Factory } from './support/mutate.ts'

// How long the replies of a primary do not count after a Sentinel has announced that it will be replaced.

/** The Sentinels are asked about a doubted connection after this long instead of a minute. */
const DOUBT_MS = 1_000
const soon = { file: 'redis/failovers.js', find: 'T_MS = 60_000', replace: `T_MS = ${DOUBT_MS}` }

const PROMOTES = '+failover-state-send-slaveof-noone'
const SWITCHES = '+switch-master'

const login = { username: 'locks', password: 'secret' }

function sentinelsOf({ servers }: Service): Address[] {
  const sentinels = servers.filter(({ name }) => name.startsWith('sentinel'))
  return sentinels.map(({ host, port }) => ({ host, port }))
}

function ended(client: Redis): Redis {
  onTestFinished(() => client.disconnect())
  return client.on('error', () => undefined)
}

/** The distinct outcomes of tries during `ms`. */
async function outcomesFor(ms: number, tried: () => Promise<string>): Promise<readonly string[]> {
  const outcomes = new Set<string>()
  for (const end = performance.now() + ms; performance.now() < end; await pause(20))
    outcomes.add(await tried())
  return [...outcomes]
}

function codeOf(error: unknown): string {
  if (isLockError(error)) return error.code
  throw error
}

/**
 * A primary is cut off from its Sentinels, not from a given client, and so is never demoted. What that client gets there
 * while another client holds the same name on the new primary.
 */
async function outcomesAtCutOffPrimary(factory: Factory): Promise<readonly string[]> {
  const settings = { user: `${login.username} on >${login.password} ~* &* +@all` }
  await using service = await startService('redis-sentinel', { settings, needsControl: true })
  const connection = { sentinels: sentinelsOf(service), name: sentinelPrimaryName, ...login }
  const client = ended(new Redis(connection))
  const given = createLocks(factory({ client }), { storeTimeoutMs: 2_000 })
  onTestFinished(() => given.close())
  await given.with(uniqueName(), () => undefined)
  const before = await currentPrimary(service)
  const admin = ended(new Redis({ ...before, ...login }))
  // Sentinels log in as the default user.
  await admin.acl('SETUSER', 'default', 'off')
  await admin.client('KILL', 'USER', 'default')
  await until(async () => (await currentPrimary(service)).port !== before.port)
  const lock = uniqueName()
  const other = connect({ connection }, { storeTimeoutMs: 20_000 })
  const lease = await other.lock(lock).acquire({ ttlMs: 60_000 })
  const outcomes = await outcomesFor(4 * DOUBT_MS, () =>
    given
      .lock(lock)
      .tryAcquire({ ttlMs: 60_000, retry: { attempts: 1 } })
      .then((second) => (second === null ? 'busy' : 'granted'), codeOf),
  )
  lease.assertHeld()
  expect((await admin.role())[0]).toBe('master')
  expect(client.stream.remotePort).toBe(before.port)
  // While there are servers to release on.
  await Promise.all([given.close(), other.close()])
  return outcomes
}

test('a given client that stays on a cut-off primary gets nothing there, however long that lasts', async () => {
  expect(await outcomesAtCutOffPrimary(await mutate([soon]))).toEqual(['LOCK_UNAVAILABLE'])
})

test('caught: the doubt about a primary ends by itself', async () => {
  const expires = {
    file: 'redis/failovers.js',
    find: 'setTimeout(() => this.#look(), DOUBT_MS)',
    replace: 'setTimeout(() => (this.#doubt = undefined), DOUBT_MS)',
  }
  const trusting = { file: 'redis/failovers.js', find: "=== 'wrong';", replace: "=== 'never';" }
  expect(await outcomesAtCutOffPrimary(await mutate([soon, expires, trusting]))).toContain('granted')
})

interface Doubting {
  readonly service: Service
  /** What a try comes to. */
  readonly tried: () => Promise<string>
  /** Publishes what a Sentinel would. Real ones publish nothing that a test chooses, so servers stand in for them. */
  readonly publish: (as: number, event: string) => Promise<void>
}

/** A client that is connected to the primary of three Sentinels, and listens to two more. */
async function beginDoubting(factory: Factory): Promise<Doubting & AsyncDisposable> {
  const service = await startService('redis-sentinel', { needsControl: true })
  const extra = await startService('redis-independent', { count: 2 })
  const primary = await currentPrimary(service)
  const sentinels = [...sentinelsOf(service), ...extra.servers.map(({ host, port }) => ({ host, port }))]
  const client = bare({ connection: { sentinels, name: sentinelPrimaryName } }, {}, factory)
  const tried = (): Promise<string> =>
    client.adapter.attempt(client.request(uniqueName())).then(() => 'granted', codeOf)
  await until(async () => (await tried()) === 'granted')
  for (const server of extra.servers)
    await until(async () => [await redisCommand(server, 'PUBSUB', 'NUMSUB', PROMOTES)].flat()[1] === 1)
  const about = `slave 127.0.0.1:1 127.0.0.1 1 @ ${sentinelPrimaryName} ${primary.host} ${primary.port}`
  return {
    service,
    tried,
    async publish(as, event) {
      const server = extra.servers[as]
      if (server !== undefined) await redisCommand(server, 'PUBLISH', event, about)
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([service.close(), extra.close()])
    },
  }
}

const REFUSED = 'LOCK_UNAVAILABLE'

/** The distinct outcomes of tries until one is refused. A mutant may end the doubt before any is. */
async function outcomesUntilRefused(tried: () => Promise<string>): Promise<readonly string[]> {
  const outcomes = new Set<string>()
  for (let n = 0; n < 500 && !outcomes.has(REFUSED); n += 1, await pause(10)) outcomes.add(await tried())
  return [...outcomes]
}

async function outcomesAfterAborts(factory: Factory): Promise<readonly string[]> {
  await using doubting = await beginDoubting(factory)
  const { tried, publish } = doubting
  await publish(0, PROMOTES)
  const before = await outcomesUntilRefused(tried)
  if (!before.includes(REFUSED)) return before
  // Of a Sentinel that does not lead.
  for (const event of ['not-elected', 'no-good-slave', 'slave-timeout'])
    await publish(1, `-failover-abort-${event}`)
  const outcomes = await outcomesFor(500, tried)
  await publish(0, '-failover-abort-slave-timeout')
  await until(async () => (await tried()) === 'granted')
  return outcomes
}

test('a failover is given up by the Sentinel that leads it, not by one that lost the election', async () => {
  expect(await outcomesAfterAborts(redis)).toEqual(['LOCK_UNAVAILABLE'])
})

test('caught: any Sentinel gives up a failover', async () => {
  const edit = { file: 'redis/failovers.js', find: 'this.#doubt?.leader === sentinel', replace: 'true' }
  expect(await outcomesAfterAborts(await mutate([edit]))).toContain('granted')
})

/** The Sentinel that announced a promotion is never heard of again. */
async function outcomesWithFewSentinels(factory: Factory): Promise<readonly string[]> {
  await using doubting = await beginDoubting(factory)
  const { service, tried, publish } = doubting
  const lost = ['sentinel-2', 'sentinel-3'].map((name) => service.server(name))
  await Promise.all(lost.map((sentinel) => sentinel.kill()))
  await publish(0, PROMOTES)
  const before = await outcomesUntilRefused(tried)
  if (!before.includes(REFUSED)) return before
  const outcomes = await outcomesFor(4 * DOUBT_MS, tried)
  await Promise.all(lost.map((sentinel) => sentinel.start()))
  await until(async () => (await tried()) === 'granted')
  return outcomes
}

test('a doubted primary counts again once most Sentinels say that it is the right one', async () => {
  expect(await outcomesWithFewSentinels(await mutate([soon]))).toEqual(['LOCK_UNAVAILABLE'])
})

test('caught: one Sentinel is enough to end the doubt', async () => {
  const edit = { file: 'redis/failovers.js', find: 'answers.length > asked.length / 2', replace: 'true' }
  expect(await outcomesWithFewSentinels(await mutate([soon, edit]))).toContain('granted')
})

interface Listening {
  readonly tried: () => Promise<string>
  /** Where the client is connected. */
  readonly primary: Address
  /** Publishes a message as the Sentinel that answers questions from now on. */
  readonly publish: (event: string, text: string) => Promise<void>
}

/** A client of real Sentinels, one of which publishes what the test chooses. */
async function listenToOne(factory: Factory): Promise<Listening & AsyncDisposable> {
  const service = await startService('redis-sentinel', { needsControl: true })
  const extra = await startService('redis-independent', { count: 1 })
  const [publisher, [real, ...others]] = [extra.server('node-1'), sentinelsOf(service)]
  const [proxy, primary] = [await proxied(publisher), await currentPrimary(service)]
  const sentinels = [{ host: proxy.host, port: proxy.port }, ...others]
  const client = bare({ connection: { sentinels, name: sentinelPrimaryName } }, {}, factory)
  const tried = (): Promise<string> =>
    client.adapter.attempt(client.request(uniqueName())).then(() => 'granted', codeOf)
  await until(async () => (await tried()) === 'granted')
  await until(async () => [await redisCommand(publisher, 'PUBSUB', 'NUMSUB', PROMOTES)].flat()[1] === 1)
  if (real !== undefined) proxy.retarget(real)
  return {
    tried,
    primary,
    publish: async (event, text) => void (await redisCommand(publisher, 'PUBLISH', event, text)),
    async [Symbol.asyncDispose]() {
      await Promise.all([service.close(), extra.close()])
    },
  }
}

const elsewhere = '127.0.0.1 1'

test('a promotion of the server that the client has gone to, read late, puts nothing in doubt', async () => {
  await using listening = await listenToOne(redis)
  const { host, port } = listening.primary
  const about = `slave ${host}:${port} ${host} ${port} @ ${sentinelPrimaryName} ${elsewhere}`
  await listening.publish(PROMOTES, about)
  expect(await outcomesFor(1_000, listening.tried)).toEqual(['granted'])
})

test.each([
  [PROMOTES, (at: string) => `slave 127.0.0.1:1 ${elsewhere} @ ${sentinelPrimaryName} ${at}`],
  [SWITCHES, (at: string) => `${sentinelPrimaryName} ${at} ${elsewhere}`],
])('%s of a failover that was undone since is not believed for long', async (event, textAbout) => {
  await using listening = await listenToOne(redis)
  const { host, port } = listening.primary
  await listening.publish(event, textAbout(`${host} ${port}`))
  const counts = async (): Promise<boolean> => (await outcomesFor(500, listening.tried)).join() === 'granted'
  await eventually('the primary counts again', 20_000, counts)
})

test('caught: a doubt ends without a word of the Sentinel that reported it', async () => {
  const edit = {
    file: 'redis/failovers.js',
    find: 'one?.address !== undefined && this.#sentinels.mapped(',
    replace: 'true || this.#sentinels.mapped(',
  }
  expect(await outcomesAfterAborts(await mutate([edit]))).toContain('granted')
})
