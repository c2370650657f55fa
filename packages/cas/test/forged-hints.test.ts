import { createLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import { cas, redisStore } from '@locks/cas'
import { assertInTime } from '@locks/core/conformance'
import { Redis } from 'ioredis'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { isSelected } from '../../../conformance/selection.ts'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import type { Server, Service } from '../../../conformance/services/index.ts'
import { scaled } from '../../../conformance/services/timing.ts'
import { until } from '../../../conformance/test-support/until.ts'
import { bare } from './support/bed.ts'

// What a user that may publish to every channel, and nothing else, can do to waiters.

if (isSelected('cas-redis'))
  describe('on redis', () => {
    let service: Service
    let server: Server

    beforeAll(async () => {
      service = await startService('redis')
      server = service.server('redis')
      const rights = ['on', '>only-publish', 'resetkeys', 'allchannels', '-@all', '+publish']
      await redisCommand(server, 'ACL', 'SETUSER', 'stranger', ...rights)
    })
    afterAll(() => service.close())

    function connect(): Locks {
      const locks = createLocks(cas(redisStore({ url: service.url })))
      onTestFinished(() => locks.close())
      return locks
    }

    /** Publishes what a change of `lock` publishes, and returns how many clients received it. */
    function stranger(lock: string): (text: string) => Promise<number> {
      const login = { username: 'stranger', password: 'only-publish', enableReadyCheck: false }
      const client = new Redis({ host: server.host, port: server.port, ...login, disableClientInfo: true })
      onTestFinished(() => client.disconnect())
      return (text) => client.publish(`locks:cas:changed:0:${lock}`, text)
    }

    async function looks(): Promise<number> {
      const stats = String(await redisCommand(server, 'INFO', 'commandstats'))
      return Number(/cmdstat_get:calls=(\d+)/.exec(stats)?.[1] ?? 0)
    }

    test('a record that was never written makes no second holder, even with the version of the real one', async () => {
      const lock = randomUUID()
      const [holder, waiter, say] = [connect(), connect(), stranger(lock)]
      const lease = await holder.lock(lock).acquire({ ttlMs: 600_000, renew: false })
      const turn = waiter.lock(lock).acquire({ waitMs: 60_000 })
      let granted = false
      void turn.then(() => (granted = true))
      const freed = JSON.stringify({ name: lock, freed: { client: 'c', write: 1 } })
      const free = `locks:${lease.fence} ${freed}`
      await until(async () => (await say('')) === 1)
      // Each of these makes it look.
      const before = await looks()
      await until(async () => granted || ((await say(free)) === 1 && (await looks()) > before + 2))
      expect(granted).toBe(false)
      await lease.extend()
      expect((await waiter.inspect(lock)).holder?.fence).toBe(lease.fence)
      await lease.release()
      expect((await turn).fence).toBeGreaterThan(lease.fence)
    })

    test('records that were never written do not keep a waiter from taking over from a dead holder', async () => {
      const lock = randomUUID()
      const [dead, waiter, say] = [bare(redisStore({ url: service.url })), connect(), stranger(lock)]
      await dead.take(dead.request({ name: lock, ttlMs: 1_000 }))
      let version = 9_000_000_000_000_000
      let said: Promise<unknown> = Promise.resolve()
      const timer = setInterval(() => void (said = say(`locks:${++version} not a record`)), 50)
      // Before its connection ends.
      onTestFinished(async () => {
        clearInterval(timer)
        await said
      })
      await waiter.lock(lock).acquire({ waitMs: scaled(60_000) })
    })

    test('a version of millions of digits does not block the event loop of a waiter', async () => {
      const lock = randomUUID()
      const [holder, waiter, say] = [connect(), connect(), stranger(lock)]
      const lease = await holder.lock(lock).acquire({ ttlMs: 600_000, renew: false })
      const turn = waiter.lock(lock).acquire({ waitMs: 600_000 })
      await until(async () => (await say('')) === 1)
      const startedAt = performance.now()
      // To read this as a number takes several seconds.
      expect(await say(`locks:${'9'.repeat(20_000_000)} x`)).toBe(1)
      await lease.release()
      await (await turn).release()
      await assertInTime('the grant', 2_000, performance.now() - startedAt)
    })
  })
