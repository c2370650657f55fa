import { createLocks } from '@locks/core'
import type { Finding } from '@locks/core'
import { cas, fileStore, memoryStore, redisStore, tairStore } from '@locks/cas'
import type { StoreFactory } from '@locks/cas'
import { Redis } from 'ioredis'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { isSelected } from '../../../conformance/selection.ts'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import type { Server, Service } from '../../../conformance/services/index.ts'
import { bare, temporaryDirectory } from './support/bed.ts'
import { startTairStub } from './support/tair-stub.ts'

async function findingsOf(open: StoreFactory): Promise<Record<string, Finding['level']>> {
  const locks = createLocks(cas(open))
  onTestFinished(() => locks.close())
  return Object.fromEntries((await locks.diagnose()).map(({ check, level }) => [check, level]))
}

describe('break', () => {
  test('frees the hold that was seen, although it was renewed since', async () => {
    const store = memoryStore()
    const [holder, operator] = [bare(store), bare(store)]
    const grant = await holder.take(holder.request({ ttlMs: 60_000 }))
    const seen = await operator.adapter.inspect('order')
    if (seen.holder === undefined) throw new Error('it is not held')
    const renewal = { grant, ttlMs: 60_000, lockDelayMs: 0 }
    expect(await holder.adapter.renew([renewal])).toEqual(['renewed'])
    expect(await operator.adapter.break?.('order', seen.holder)).toBe('broken')
    expect(await operator.adapter.break?.('order', seen.holder)).toBe('not-held')
    expect(await holder.adapter.renew([renewal])).toEqual(['lost'])
    const next = await operator.take(operator.request({ ttlMs: 60_000 }))
    expect(next.fence).toBeGreaterThan(grant.fence)
    expect(await operator.adapter.break?.('order', seen.holder)).toBe('not-held')
    expect(await holder.adapter.release(grant)).toBe('not-held')
  })
})

describe('a store that cannot list its values', () => {
  test('has no list', async () => {
    const open: StoreFactory = () => {
      const store = memoryStore()()
      delete store.values
      return store
    }
    const locks = createLocks(cas(open))
    expect(locks.capabilities.list).toBe(false)
    await expect(locks.list()).rejects.toMatchObject({ code: 'LOCK_UNSUPPORTED' })
  })
})

describe('the directory', () => {
  test('lists what is held by name, whatever else lies there', async () => {
    const directory = await temporaryDirectory()
    const locks = createLocks(cas(fileStore({ directory })), { ttlMs: 60_000 })
    onTestFinished(() => locks.close())
    const names = ['../a', 'b', 'é'.repeat(60)]
    for (const name of [...names, 'free']) await locks.lock(name).acquire()
    await locks.lock('free').break()
    await writeFile(join(directory, 'README'), 'not ours')
    await mkdir(join(directory, 'empty'))
    const found = await createLocks(cas(fileStore({ directory }))).list()
    expect(found.map(({ name }) => name).toSorted()).toEqual(names.toSorted())
  })

  test('is looked at: there or not, and on what file system', async () => {
    const directory = await temporaryDirectory()
    expect(await findingsOf(fileStore({ directory }))).toEqual({
      directory: 'ok',
      'file-system': 'ok',
      leftovers: 'ok',
    })
    expect(await findingsOf(fileStore({ directory: join(directory, 'missing') }))).toEqual({
      directory: 'warning',
    })
  })
})

test('tair lists by SCAN, and shows a policy that evicts', async () => {
  const stub = await startTairStub()
  onTestFinished(() => stub.close())
  const open = tairStore({ url: stub.url, prefix: 'p:' })
  const client = bare(open)
  await client.take(client.request({ ttlMs: 60_000 }))
  expect(await client.adapter.list?.(10)).toMatchObject([{ name: 'order', held: true }])
  expect(await findingsOf(open)).toEqual({ 'eviction-policy': 'danger', persistence: 'ok', leftovers: 'ok' })
})

if (isSelected('cas-redis'))
  describe('redis', () => {
    let service: Service
    let server: Server

    beforeAll(async () => {
      service = await startService('redis', { needsControl: true })
      server = service.server('redis')
    })
    afterAll(() => service.close())

    test('lists its own keys alone, also under a prefix that reads like a pattern', async () => {
      const own = new Redis(service.url, { keyPrefix: 'app[1]*:' })
      const twin = new Redis(service.url, { keyPrefix: 'app1x:' })
      onTestFinished(() => [own, twin].forEach((client) => client.disconnect()))
      const [client, other] = [bare(redisStore({ client: own })), bare(redisStore({ client: twin }))]
      for (let n = 0; n < 250; n += 1) await client.take(client.request({ name: `ours ${n}`, ttlMs: 60_000 }))
      await other.take(other.request({ name: 'theirs', ttlMs: 60_000 }))
      await redisCommand(server, 'SET', 'app[1]*:locks:cas:no-hash', 'x')
      const names = (await client.adapter.list?.(1_000))?.map(({ name }) => name) ?? []
      expect(names).toHaveLength(250)
      expect(names.every((name) => name.startsWith('ours '))).toBe(true)
      expect(await client.adapter.list?.(7)).toHaveLength(7)
    })

    test('is looked at: eviction and persistence', async () => {
      const open = redisStore({ url: service.url })
      const settings = async (policy: string, aof: string): Promise<unknown> => {
        await redisCommand(server, 'CONFIG', 'SET', 'maxmemory-policy', policy)
        await redisCommand(server, 'CONFIG', 'SET', 'appendonly', aof)
        return findingsOf(open)
      }
      expect(await settings('allkeys-lru', 'no')).toEqual({
        'eviction-policy': 'danger',
        persistence: 'danger',
        leftovers: 'ok',
      })
      expect(await settings('noeviction', 'yes')).toEqual({
        'eviction-policy': 'ok',
        persistence: 'ok',
        leftovers: 'ok',
      })
    })

    test('reports what holders that crashed left, and when nobody has dropped it', async () => {
      const prefix = 'crashed:'
      const open = redisStore({ url: service.url, prefix })
      const locks = createLocks(cas(open))
      onTestFinished(() => locks.close())
      const finding = async (): Promise<Finding | undefined> =>
        (await locks.diagnose()).find(({ check }) => check === 'leftovers')
      await locks.with('free', () => undefined)
      await locks.lock('held').acquire()
      await redisCommand(server, 'SET', `${prefix}foreign`, 'text')
      expect(await finding()).toMatchObject({ level: 'ok', message: 'the records of 2 names are kept' })
      const [, record = ''] = String(await redisCommand(server, 'GET', `${prefix}held`)).split(/ (.*)/s)
      const daysAgo = (days: number): string => `locks:${(Date.now() - days * 86_400_000) * 1_000} ${record}`
      await redisCommand(server, 'SET', `${prefix}old`, daysAgo(1))
      expect(await finding()).toMatchObject({
        level: 'ok',
        message: 'the records of 3 names are kept; 1 of holders that crashed, the oldest for 1.0 days',
      })
      await redisCommand(server, 'SET', `${prefix}older`, daysAgo(30))
      expect(await finding()).toMatchObject({
        level: 'warning',
        message: 'the records of 4 names are kept; 2 of holders that crashed, the oldest for 30.0 days',
        advice: 'run locks prune; clients prune after their releases, once they have run for ten minutes',
      })
    })
  })
