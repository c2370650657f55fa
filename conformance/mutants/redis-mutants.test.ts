import type { AdapterFactory } from '@locks/core'
import type { Adapter } from '@locks/core/adapter'
import { eventually, isOverdue, isVoidRun, openTestAdapter } from '@locks/core/conformance'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { isAdapterSelected } from '../selection.ts'
import { redisCommand, startService } from '../services/index.ts'
import { startShiftingProxy } from '../test-support/shifting-proxy.ts'
import { copyOf } from './mutant.ts'
import type { Edit } from './mutant.ts'

// Bugs of the Redis adapters, and of locks in a directory, that show only on a real store, each with the check that must
// notice it.

interface RedisMutant {
  readonly bug: string
  readonly caught: (edits: readonly Edit[]) => Promise<void>
  readonly edit: Edit
}

const mutants: readonly RedisMutant[] = [
  {
    bug: 'the reply to another call is taken',
    caught: noGrantByMistake,
    edit: {
      file: 'redis/script.js',
      find: 'return reply.startsWith(call) ? reply.slice(call.length) : MISDIRECTED;',
      replace: 'return reply.slice(call.length);',
    },
  },
  {
    bug: 'servers are not compared by their run ids',
    caught: oneServerIsRefused,
    edit: { file: 'redlock/identities.js', find: 'throw this.#sameServer(node, other);', replace: ';' },
  },
  {
    bug: 'an attempt votes again under an id that it has withdrawn',
    caught: noVoteReleasedLate,
    edit: { file: 'redlock/votes.js', find: 'id: another(attemptId)', replace: 'id: attemptId' },
  },
  {
    bug: 'a database that the server refuses is replaced by database 0',
    caught: noOtherDatabase,
    edit: { file: 'redis/drivers/ioredis.js', find: '!refusesDatabase(error)', replace: 'true' },
  },
  {
    bug: 'a published record counts as one of the store',
    caught: noGrantByHearsay,
    edit: { file: 'cas/waiters.js', find: 'this.#seen.hint(', replace: 'this.#seen.note(' },
  },
  {
    bug: 'the folder of a key that is being made is emptied in its place',
    caught: noEmptyKey,
    edit: {
      file: 'cas/stores/file-floor.js',
      find: 'const away = newFolder(this.pathOf(floor), folderOfNew(entry));',
      replace: 'const away = join(this.pathOf(floor), entry);',
    },
  },
  {
    bug: 'clients drop a record that was not renewed for long, without watching it',
    caught: noDropOfTheLiving,
    edit: { file: 'cas/adapter.js', find: 'watching.isOver, true', replace: '() => true, true' },
  },
]

/** A reply is doubled, so that the next command gets it: that one must not be granted what another client holds. */
async function noGrantByMistake(edits: readonly Edit[]): Promise<void> {
  await using service = await startService('redis')
  const proxy = await startShiftingProxy(service.server('redis'))
  const make = await factoryOf('redis', edits)
  const direct = open(await make({ url: service.url }))
  const shifted = open(await make({ url: `redis://127.0.0.1:${proxy.port}` }))
  await direct.take(direct.request('held'))
  await shifted.take(shifted.request('warm-up'))
  const done = proxy.shift('duplicate', 'free')
  const tries = ['free', 'held'].map((name) => outcome(shifted.adapter, shifted.request(name)))
  await done
  expect((await Promise.all(tries))[1]).not.toHaveProperty('fence')
}

async function oneServerIsRefused(edits: readonly Edit[]): Promise<void> {
  await using service = await startService('redis-independent', { count: 2 })
  const [one, other] = service.servers
  const make = await factoryOf('redlock', edits)
  const nodes = [`redis://127.0.0.1:${one?.port}`, `redis://localhost:${one?.port}`, other?.url]
  const { adapter, request } = open(await make({ nodes }))
  expect(await outcome(adapter, request('name'))).not.toHaveProperty('fence')
}

/** What the script of a release does: the network may repeat it. */
const RELEASE = "return redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 and redis.call('DEL', KEYS[1]) or 0"

async function noVoteReleasedLate(edits: readonly Edit[]): Promise<void> {
  await using service = await startService('redis-independent', { count: 3 })
  const [first, second, third] = service.servers
  if (first === undefined || second === undefined || third === undefined) throw new Error('too few nodes')
  const make = await factoryOf('redlock', edits)
  const factory = await make({ nodes: service.servers.map(({ url }) => url) })
  const [holder, other] = [open(factory), open(factory)]
  const wanted = holder.request('name', { willWait: true })
  for (const node of [first, third]) {
    await redisCommand(node, 'HSET', 'locks:name', `${randomUUID()}:1`, 1)
    await redisCommand(node, 'PEXPIRE', 'locks:name', 600_000)
  }
  expect(await outcome(holder.adapter, wanted)).not.toHaveProperty('fence')
  await redisCommand(first, 'DEL', 'locks:name')
  await holder.take(wanted)
  await redisCommand(second, 'EVAL', RELEASE, 1, 'locks:name', wanted.attemptId)
  await redisCommand(third, 'DEL', 'locks:name')
  expect(await outcome(other.adapter, other.request('name'))).not.toHaveProperty('fence')
}

async function noOtherDatabase(edits: readonly Edit[]): Promise<void> {
  await using service = await startService('redis')
  const make = await factoryOf('redis', edits)
  const { adapter, request } = open(await make({ url: `${service.url}/99` }))
  expect(await outcome(adapter, request('name'))).not.toHaveProperty('fence')
}

/** Anyone may publish that a held name is free. */
async function noGrantByHearsay(edits: readonly Edit[]): Promise<void> {
  await using service = await startService('redis')
  const make = await factoryOf('cas', edits)
  const factory = await make({ store: 'redis', url: service.url })
  const [holder, waiter] = [open(factory), open(factory)]
  const { fence } = await holder.take(holder.request('held', { ttlMs: 600_000 }))
  const freed = JSON.stringify({ name: 'held', freed: { client: 'c', write: 1 } })
  const wanted = waiter.request('held', { willWait: true })
  await waiter.adapter.attempt(wanted)
  const [channel, free] = ['locks:cas:changed:0:held', `locks:${fence} ${freed}`]
  const heard = async (): Promise<boolean> =>
    (await redisCommand(service.server('redis'), 'PUBLISH', channel, free)) === 1
  await eventually('the waiter listens', 5_000, heard)
  // What it reads when it begins to listen may follow the first of these.
  for (let round = 0; round < 10; round += 1) {
    await heard()
    await waiter.adapter.wait?.(wanted, 1_000, new AbortController().signal)
    expect(await outcome(waiter.adapter, wanted)).not.toHaveProperty('fence')
  }
}

/** How long a client goes on releasing: several times what it takes to search and to drop. */
const RELEASING_MS = 4_000

async function noDropOfTheLiving(edits: readonly Edit[]): Promise<void> {
  await using service = await startService('redis')
  const make = await factoryOf('cas', edits)
  const [holder, other] = [
    open(await make({ store: 'redis', url: service.url })),
    open(await make({ store: 'redis', url: service.url, fenceIdleMs: 1_000 })),
  ]
  await holder.take(holder.request('held', { ttlMs: 600_000 }))
  const from = performance.now()
  // Longer where it stood still meanwhile.
  while (!isOverdue(RELEASING_MS, from)) await other.adapter.release(await other.take(other.request('busy')))
  expect(await outcome(other.adapter, other.request('held'))).not.toHaveProperty('fence')
}

/** Several clients take new names while another removes what processes that died were making. */
async function noEmptyKey(edits: readonly Edit[]): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'locks-mutant-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  const factory = await (await factoryOf('cas', edits))({ store: 'file', directory })
  const other = open(factory)
  let users = 4
  const use = async (user: number): Promise<void> => {
    const { adapter, request, take } = open(factory)
    for (let n = 0; n < 100 && users === 4; n += 1) {
      const grant = await take(request(`${user} ${n}`, { ttlMs: 600_000 }))
      expect(await outcome(other.adapter, other.request(grant.name))).not.toHaveProperty('fence')
      await adapter.release(grant)
      await adapter.prune?.(0, [grant.name])
    }
  }
  const prune = async (): Promise<void> => {
    while (users > 0) await other.adapter.prune?.(1)
  }
  const all = [1, 2, 3, 4].map((user) => use(user).finally(() => (users -= 1)))
  // All of them end before the directory goes.
  const ends = await Promise.allSettled([...all, prune()])
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}

function open(factory: AdapterFactory): ReturnType<typeof openTestAdapter> {
  const opened = openTestAdapter(factory)
  onTestFinished(() => opened.adapter.close())
  return opened
}

async function outcome(adapter: Adapter, request: Parameters<Adapter['attempt']>[0]): Promise<object> {
  return adapter.attempt(request).catch((error: unknown) => ({ error }))
}

type Make = (options: object) => AdapterFactory | Promise<AdapterFactory>

async function factoryOf(name: 'redis' | 'redlock' | 'cas', edits: readonly Edit[]): Promise<Make> {
  const { home, dispose } = await copyOf(['core', 'redis', 'redlock', 'cas'], edits)
  onTestFinished(dispose)
  const module: unknown = await import(pathToFileURL(join(home, name, 'dist', 'index.js')).href)
  if (!hasFactory(module)) throw new Error('the mutant has no factory')
  return module.fromConfig
}

function hasFactory(module: unknown): module is { readonly fromConfig: Make } {
  return typeof module === 'object' && module !== null && 'fromConfig' in module
}

if (['redis', 'redlock', 'cas'].every(isAdapterSelected))
  describe('mutants of the Redis adapters', () => {
    for (const { bug, caught, edit } of mutants) {
      test(`healthy: ${bug}`, () => caught([]))

      test(`caught: ${bug}`, async () => {
        const error: unknown = await caught([edit]).then(
          () => undefined,
          (reason: unknown) => reason,
        )
        // Neither caught nor not: this test then runs again.
        if (isVoidRun(error)) throw error
        expect(String(error), 'it was not caught').toMatch(/to not have property "fence"/)
      })
    }
  })
