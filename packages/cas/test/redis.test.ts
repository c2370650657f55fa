import { createLocks } from '@locks/core'
import { cas, redisStore } from '@locks/cas'
import type { StoreFactory } from '@locks/cas'
import { eventually } from '@locks/core/conformance'
import { Redis } from 'ioredis'
import { inspect } from 'node:util'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { isSelected } from '../../../conformance/selection.ts'
import { redisCommand, redisFields, startService } from '../../../conformance/services/index.ts'
import type { Server, Service } from '../../../conformance/services/index.ts'
import { openClient } from '../../../conformance/test-support/clients.ts'
import { expectNoLeak } from '../../../conformance/test-support/listeners.ts'
import { startProgram } from '../../../conformance/test-support/program.ts'
import { bare } from './support/bed.ts'

if (isSelected('cas-redis'))
  describe('the redis store', () => {
    let service: Service
    let server: Server
    let open: StoreFactory

    beforeAll(async () => {
      service = await startService('redis', { needsControl: true })
      server = service.server('redis')
      open = redisStore({ url: service.url })
    })
    afterAll(() => service.close())

    /** Resolves once a waiter is subscribed to changes of `key`. */
    async function isWatched(key: string): Promise<void> {
      for (let listening = 0; listening === 0;) {
        const reply = await redisCommand(server, 'PUBSUB', 'NUMSUB', `locks:cas:changed:0:${key}`)
        listening = Array.isArray(reply) ? Number(reply[1]) : 0
      }
    }

    test('sends its script again to a server that forgot it', async () => {
      const client = bare(open)
      await client.adapter.release(await client.take(client.request({ name: 'flushed' })))
      await redisCommand(server, 'SCRIPT', 'FLUSH')
      await client.adapter.release(await client.take(client.request({ name: 'flushed' })))
    })

    test('a record expires while its name is free, never while it is held, and comes back higher', async () => {
      const locks = createLocks(cas(open, { fenceIdleMs: 60_000 }))
      onTestFinished(() => locks.close())
      const leftMs = async (): Promise<number> => Number(await redisCommand(server, 'PTTL', 'locks:cas:idle'))
      const first = await locks.lock('idle').acquire()
      expect(await leftMs()).toBe(-1)
      await first.release()
      expect(await leftMs()).toBeGreaterThan(0)
      const second = await locks.lock('idle').acquire()
      expect(await leftMs()).toBe(-1)
      await second.extend()
      expect(await leftMs()).toBe(-1)
      await second.release()
      // As when it expired.
      await redisCommand(server, 'DEL', 'locks:cas:idle')
      await locks.with('idle', ({ fence }) => expect(fence).toBeGreaterThan(second.fence))
    })

    test('the record of a holder that crashed is dropped by clients, and its name comes back higher', async () => {
      const dead = bare(open)
      const { fence } = await dead.take(dead.request({ name: 'crashed', ttlMs: 500 }))
      await redisCommand(server, 'SET', 'locks:cas:of others', 'text')
      await redisCommand(server, 'SET', 'locks:cas:of others too', `locks:1 {"name":"bob"}`)
      const alive = createLocks(cas(open), { ttlMs: 60_000 })
      const slow = createLocks(cas(open))
      onTestFinished(async () => void (await Promise.all([alive.close(), slow.close()])))
      const [renewed, fixed] = [
        await slow.lock('renewed').acquire({ ttlMs: 1_000 }),
        await alive.lock('fixed').acquire(),
      ]
      const locks = createLocks(cas(open, { fenceIdleMs: 1_000 }))
      onTestFinished(() => locks.close())
      const isThere = async (key: string): Promise<boolean> =>
        (await redisCommand(server, 'EXISTS', `locks:cas:${key}`)) === 1
      await eventually('the record is dropped', 30_000, async () => {
        await locks.with('busy', () => undefined)
        return !(await isThere('crashed'))
      })
      const kept = ['renewed', 'fixed', 'of others', 'of others too']
      const there: string[] = []
      for (const key of kept) if (await isThere(key)) there.push(key)
      // One that was lost by a stall may be dropped.
      for (const lease of [renewed, fixed]) lease.assertHeld()
      expect(there).toEqual(kept)
      await locks.with('crashed', (lease) => expect(lease.fence).toBeGreaterThan(fence))
    })

    test('an unrenewed record is not dropped before it stood still for its whole length', async () => {
      const holder = bare(open)
      const grant = await holder.take(holder.request({ name: 'silent', ttlMs: 6_000 }))
      const takenAt = performance.now()
      const locks = createLocks(cas(open, { fenceIdleMs: 1_000 }))
      onTestFinished(() => locks.close())
      let dropped = false
      await eventually('it is dropped', 60_000, async () => {
        await locks.with('busy', () => undefined)
        dropped = (await redisCommand(server, 'EXISTS', 'locks:cas:silent')) === 0
        // Read after the look, which therefore saw at most this.
        if (dropped) expect(performance.now() - takenAt).toBeGreaterThanOrEqual(6_000)
        return dropped
      })
      expect(await holder.adapter.release(grant)).toBe('not-held')
    })

    test.each([
      ['no prefix', '', 0],
      ['the prefix of an application', 'app:', 200],
    ])('in the background no value of others is sent: %s', async (_, prefix, mostLooks) => {
      await redisCommand(server, 'FLUSHALL')
      const fill = `for n = 1, 300 do redis.call('SET', 'app:' .. n, string.rep('x', 100000)) end`
      await redisCommand(server, 'EVAL', fill, '0')
      onTestFinished(async () => void (await redisCommand(server, 'FLUSHALL')))
      const sent = async (): Promise<number> =>
        Number((await redisFields(server, 'INFO', 'stats')).get('total_net_output_bytes'))
      const store = redisStore({ url: service.url, prefix })()
      onTestFinished(() => store.close())
      await redisCommand(server, 'CONFIG', 'RESETSTAT')
      const before = await sent()
      for (let passes = 0; passes < 3; passes += 1)
        for await (const dropped of store.prune?.(1_000, () => true, true) ?? []) expect(dropped).toBe(0)
      expect((await sent()) - before).toBeLessThan(300_000)
      const stats = await redisFields(server, 'INFO', 'commandstats')
      const looks = Number(/^calls=(\d+),/.exec(stats.get('cmdstat_getrange') ?? 'calls=0,')?.[1])
      expect(looks).toBeLessThanOrEqual(mostLooks)
      expect(stats.has('cmdstat_scan')).toBe(mostLooks > 0)
      // What an operator asks for looks at every key, and sends as little.
      const operator = createLocks(cas(redisStore({ url: service.url, prefix })))
      onTestFinished(() => operator.close())
      await operator.with('order', () => undefined)
      expect(await operator.prune({ idleMs: 0 })).toBe(1)
      await operator.diagnose()
      expect((await sent()) - before).toBeLessThan(600_000)
    })

    test("costs two commands in an uncontended cycle, by the server's own count", async () => {
      const locks = openClient(cas(open))
      await locks.with('warm', () => undefined)
      await redisCommand(server, 'CONFIG', 'RESETSTAT')
      for (let n = 0; n < 100; n += 1) await locks.with('warm', () => undefined)
      const stats = await redisFields(server, 'INFO', 'commandstats')
      expect(stats.get('cmdstat_evalsha')).toMatch(/^calls=200,/)
      expect(stats.has('cmdstat_eval')).toBe(false)
    })

    test.each([
      ['OOM', ['CONFIG', 'SET', 'maxmemory', '1'], ['CONFIG', 'SET', 'maxmemory', '0']],
      ['READONLY', ['REPLICAOF', '127.0.0.1', '1'], ['REPLICAOF', 'NO', 'ONE']],
    ])('%s is an outage, never "busy"', async (code, breakIt, mend) => {
      const client = bare(open)
      onTestFinished(async () => void (await redisCommand(server, ...mend)))
      await redisCommand(server, ...breakIt)
      const outcome = client.adapter.attempt(client.request({ name: code }))
      await expect(outcome).rejects.toMatchObject({ code: 'LOCK_UNAVAILABLE' })
      await expect(outcome).rejects.toThrow(`@locks/cas: Redis failed (${code})`)
    })

    test('a waiter whose hints are cut off still gets the lock', async () => {
      const [holder, waiter] = [createLocks(cas(open)), createLocks(cas(redisStore({ url: service.url })))]
      onTestFinished(async () => void (await Promise.all([holder.close(), waiter.close()])))
      const lease = await holder.lock('cut').acquire({ ttlMs: 3_000 })
      const turn = waiter.lock('cut').acquire()
      await isWatched('cut')
      await redisCommand(server, 'CLIENT', 'KILL', 'TYPE', 'pubsub')
      await lease.release()
      expect((await turn).fence).toBeGreaterThan(lease.fence)
    })

    test('a waiter that may not listen any more still gets the lock, and ends no process', async () => {
      const rejections: unknown[] = []
      const onRejection = (reason: unknown): void => void rejections.push(reason)
      process.on('unhandledRejection', onRejection)
      onTestFinished(() => void process.off('unhandledRejection', onRejection))
      await redisCommand(server, 'ACL', 'SETUSER', 'narrowed', 'on', '>sesame', '~*', '&*', '+@all')
      const url = `redis://narrowed:sesame@${server.host}:${server.port}`
      const [holder, waiter] = [createLocks(cas(open)), createLocks(cas(redisStore({ url })))]
      onTestFinished(async () => void (await Promise.all([holder.close(), waiter.close()])))
      const lease = await holder.lock('narrowed').acquire()
      const turn = waiter.lock('narrowed').acquire({ waitMs: 60_000 })
      await isWatched('narrowed')
      // The server ends the connection, and refuses the subscription on the next one.
      await redisCommand(server, 'ACL', 'SETUSER', 'narrowed', 'resetchannels')
      while (!String(await redisCommand(server, 'ACL', 'LOG')).includes('narrowed'));
      await redisCommand(server, 'ACL', 'SETUSER', 'narrowed', '&*')
      await lease.release()
      expect((await turn).fence).toBeGreaterThan(lease.fence)
      expect(rejections).toEqual([])
    })

    test('a program that is done ends although its server is gone', async () => {
      await using own = await startService('redis', { needsControl: true })
      const program = `
        import { cas, redisStore } from '@locks/cas'
        import { createLocks } from '@locks/core'
        const locks = createLocks(cas(redisStore({ url: '${own.url}' })))
        await locks.lock('a').acquire({ renew: false, ttlMs: 60_000 })
        await locks.lock('a').acquire({ waitMs: 100 }).catch(() => undefined)
        process.stdout.write('held')
        await new Promise((resolve) => process.stdin.once('data', resolve))
        process.stdin.unref()
      `
      const { goOn, exited } = await startProgram(program, import.meta.dirname)
      await own.server('redis').kill()
      goOn()
      expect(await exited).toEqual([0, null])
    })

    test('fences rise although the server lost everything', async () => {
      const client = bare(open)
      const before = await client.take(client.request({ name: 'amnesia' }))
      await server.restart({ hard: true, wipe: true })
      const other = bare(open)
      const after = await other.take(other.request({ name: 'amnesia' }))
      expect(after.fence).toBeGreaterThan(before.fence)
      // The earlier holder has lost it, and does not touch the next one.
      // Its connection may not be there again yet.
      expect(await client.renew({ grant: before, ttlMs: 60_000, lockDelayMs: 0 })).toBe('lost')
      expect(await client.adapter.release(before)).toBe('not-held')
    })

    test("works on a client of the user's, in its database and under its prefix, and does not close it", async () => {
      const own = new Redis(service.url, { db: 3, keyPrefix: 'app:' })
      onTestFinished(() => own.disconnect())
      const locks = createLocks(cas(redisStore({ client: own, prefix: 'locks:' })))
      await locks.with('order', () => undefined)
      await locks.close()
      expect(await own.ping()).toBe('PONG')
      own.options.keyPrefix = ''
      expect(await own.keys('*')).toEqual(['app:locks:order'])
      expect(await own.dbsize()).toBe(1)
    })

    test("leaves the user's client with the listeners it had, and a dozen stores do not look like a leak", async () => {
      const own = new Redis(service.url)
      onTestFinished(() => own.disconnect())
      await own.ping()
      await expectNoLeak([own], () => createLocks(cas(redisStore({ client: own }))))
    })

    test('gets changes of its own keys alone, also under a key prefix of the client', async () => {
      const own = new Redis(service.url, { db: 3, keyPrefix: 'app:' })
      const twin = new Redis(service.url, { db: 4, keyPrefix: 'app:' })
      onTestFinished(() => [own, twin].forEach((client) => client.disconnect()))
      const [store, other] = [redisStore({ client: own })(), redisStore({ client: twin })()]
      onTestFinished(async () => void (await Promise.all([store.close(), other.close()])))
      const heard: (string | undefined)[] = []
      let ring: () => void = () => undefined
      const rung = new Promise<void>((resolve) => (ring = resolve))
      await store.watch?.('twins', (current) => {
        heard.push(current?.value)
        if (current?.value === 'ours') ring()
      })
      await other.put('twins', 'theirs', undefined, true)
      await store.put('twins', 'ours', undefined, true)
      await rung
      expect(heard).not.toContain('theirs')
    })

    test('no error shows what was sent', async () => {
      const client = bare(redisStore({ url: `redis://nobody:sesame@${server.host}:${server.port}` }))
      const error: unknown = await client.adapter.attempt(client.request()).catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'LOCK_INVALID_ARGUMENT' })
      expect(inspect(error, { depth: 10, showHidden: true })).not.toContain('sesame')
    })
  })
