import { createLocks } from '@locks/core'
import { systemClock } from '@locks/core/adapter'
import type { Locks, LocksOptions } from '@locks/core'
import type { AcquireRequest, Adapter, AdapterHost, Grant } from '@locks/core/adapter'
import { assertInTime, startChild, startFaultProxy } from '@locks/core/conformance'
import type { Child, FaultProxy } from '@locks/core/conformance'
import { redis } from '@locks/redis'
import type { RedisOptions } from '@locks/redis'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, onTestFinished } from 'vitest'
import { redisCommand, redisFields } from '../../../../conformance/services/index.ts'
import type { Address } from '../../../../conformance/services/index.ts'
import { until } from '../../../../conformance/test-support/until.ts'

export { until } from '../../../../conformance/test-support/until.ts'

/** Everything made here ends with the test. */
export function connect(options: RedisOptions, locksOptions: LocksOptions = {}): Locks {
  const locks = createLocks(redis(options), locksOptions)
  onTestFinished(() => locks.close())
  return locks
}

/** Without a prefix, so that the name of a lock is its key. */
export function at({ host, port }: Address): RedisOptions {
  return { connection: { host, port }, prefix: '' }
}

export interface Bare {
  readonly adapter: Adapter
  readonly request: (name: string, options?: Partial<AcquireRequest>) => AcquireRequest
  readonly take: (request: AcquireRequest) => Promise<Grant>
}

/** An adapter without core above it. */
export function bare(options: RedisOptions, host: Partial<AdapterHost> = {}, factory = redis): Bare {
  const clientId = randomUUID()
  const adapter = factory(options)({ clientId, clock: systemClock, report: () => undefined, ...host })
  onTestFinished(() => adapter.close?.())
  let attempts = 0
  return {
    adapter,
    request(name, changes = {}) {
      const attemptId = `${clientId}:${++attempts}`
      const owner = `owner ${attempts}`
      const metadata = { host: 'test', pid: process.pid }
      const rest = { ttlMs: 20_000, lockDelayMs: 0, willWait: false, metadata }
      return { name, attemptId, owner, mode: 'exclusive', ...rest, ...changes }
    },
    async take(request) {
      const answer = await adapter.attempt(request)
      if ('busy' in answer) throw new Error(`${request.name} is held by ${answer.holder?.owner}`)
      return answer
    },
  }
}

export interface Waiting extends Bare {
  readonly wanted: AcquireRequest
}

/** An independent client that is subscribed and in the queue of a lock that is held. */
export async function enqueue(options: RedisOptions, lock: string, factory = redis): Promise<Waiting> {
  const client = bare(options, {}, factory)
  const wanted = client.request(lock, { willWait: true })
  await client.adapter.attempt(wanted)
  // Over once it listens.
  await client.adapter.wait?.(wanted, 600_000, new AbortController().signal)
  await client.adapter.attempt(wanted)
  return { ...client, wanted }
}

/** What a release since `releasedAt` pushed to a waiter. Void if it was read after its claim because of a stall. */
export async function pushedTo(
  { adapter, wanted }: Waiting,
  releasedAt: number,
  claimTtlMs = 3_000,
): Promise<Grant> {
  const pushed = await adapter.wait?.(wanted, 600_000, new AbortController().signal)
  if (pushed === undefined)
    await assertInTime(
      'the grant is read',
      { ms: claimTtlMs, from: 'claimTtlMs' },
      performance.now() - releasedAt,
    )
  return pushed ?? expect.fail('no grant was pushed')
}

export async function proxied(target: Address): Promise<FaultProxy> {
  const proxy = await startFaultProxy({ host: target.host, port: target.port })
  onTestFinished(() => proxy.close())
  return proxy
}

/** A server that hangs: its connections are accepted, and nothing is ever answered. */
export async function hungServer(): Promise<Address> {
  const server = createServer(
    { allowHalfOpen: true },
    (socket) => void socket.on('error', () => undefined).resume(),
  )
  onTestFinished(() => void server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a server without a TCP port')
  return { host: address.address, port: address.port }
}

export async function startProcess(options: RedisOptions, locksOptions: LocksOptions = {}): Promise<Child> {
  const child = await startChild()
  onTestFinished(() => child.kill())
  await child.call('open', { config: { adapter: '@locks/redis', ...options }, options: locksOptions })
  return child
}

export function uniqueName(hint = 'lock'): string {
  return `test:${hint}:${randomUUID()}`
}

/** The first entry in the queue of `lock`. */
export async function entryOf(server: Address, lock: string): Promise<string> {
  const reply = await redisCommand(server, 'ZRANGE', `locks_queue:{${lock}}`, 0, 0)
  if (!Array.isArray(reply) || typeof reply[0] !== 'string') throw new Error(`${lock} has no waiter`)
  return reply[0]
}

/** Resolves once so many clients are in the queue of `lock`. */
export async function queued(locks: Locks, lock: string, count = 1): Promise<void> {
  await until(async () => (await locks.inspect(lock)).waiters === count)
}

/** What clients send, as opposed to what scripts do inside the server. */
const sent = ['evalsha', 'eval', 'subscribe', 'unsubscribe', 'ssubscribe', 'sunsubscribe', 'ping', 'wait']

/** How often clients have sent each command so far. */
export async function commandCounts(
  server: Address,
): Promise<{ readonly total: number; [name: string]: number }> {
  const stats = await redisFields(server, 'INFO', 'commandstats')
  const counts = Object.fromEntries(
    sent.map((name) => [name, Number(/calls=(\d+)/.exec(stats.get(`cmdstat_${name}`) ?? '')?.[1] ?? 0)]),
  )
  return { ...counts, total: Object.values(counts).reduce((sum, count) => sum + count, 0) }
}

/** Fields of the lock other than what is said about its holder. */
export async function holdersOf(
  server: Address,
  lock: string,
): Promise<readonly (readonly [string, string])[]> {
  const fields = await redisFields(server, 'HGETALL', lock)
  return [...fields].filter(([field]) => field.includes(':'))
}

export async function exists(server: Address, ...keys: string[]): Promise<boolean> {
  return Number(await redisCommand(server, 'EXISTS', ...keys)) > 0
}
