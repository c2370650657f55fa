import { cas, redisStore } from '@locks/cas'
import { createLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import { startFaultProxy } from '@locks/core/conformance'
import { Cluster, Command } from 'ioredis'
import type { NatMap } from 'ioredis'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { isSelected } from '../../../conformance/selection.ts'
import { startService } from '../../../conformance/services/index.ts'
import type { Service } from '../../../conformance/services/index.ts'
import { listenersOf } from '../../../conformance/test-support/listeners.ts'
import { bare } from './support/bed.ts'

/** A name whose record is on the first node. */
function nameOnFirst(): string {
  for (;;) {
    const name = randomUUID()
    if (Number(new Command('get', [`locks:cas:${name}`]).getSlot()) < 5_000) return name
  }
}

if (isSelected('cas-redis'))
  describe('the redis store on a Cluster', () => {
    let service: Service
    beforeAll(async () => {
      service = await startService('redis-cluster')
    })
    afterAll(() => service.close())

    function connect(options: { natMap?: NatMap; keyPrefix?: string } = {}): Cluster {
      const { host, port } = service.server('node-2')
      const client = new Cluster([{ host, port }], { slotsRefreshTimeout: 10_000, ...options })
      onTestFinished(() => client.disconnect())
      return client
    }

    test('a release that was sent twice and finds the next holder is not a loss', async () => {
      const first = service.server('node-1')
      const proxy = await startFaultProxy({ host: first.host, port: first.port })
      onTestFinished(() => proxy.close())
      const natMap = { [`${first.host}:${first.port}`]: { host: proxy.host, port: proxy.port } }
      const [holder, next] = [
        bare(redisStore({ client: connect({ natMap }) })),
        bare(redisStore({ client: connect() })),
      ]
      const name = nameOnFirst()
      const grant = await holder.take(holder.request({ name, ttlMs: 60_000 }))
      const swallowed = proxy.swallowNextReply()
      const released = holder.adapter.release(grant).catch((error: unknown) => error)
      await swallowed
      proxy.refuse()
      await next.take(next.request({ name, ttlMs: 60_000 }))
      proxy.pass()
      expect(await released).toMatchObject({ code: 'LOCK_UNAVAILABLE' })
    })

    test('the client has the listeners that it had before, once its stores are closed', async () => {
      const client = connect()
      await client.ping()
      const before = listenersOf(client)
      const [holder, waiter] = [redisStore({ client }), redisStore({ client })].map((store) =>
        createLocks(cas(store)),
      )
      const lease = await holder?.lock('left').acquire()
      const turn = waiter?.lock('left').acquire({ waitMs: 60_000 })
      await lease?.release()
      await (await turn)?.release()
      await holder?.close()
      await waiter?.close()
      expect(listenersOf(client)).toEqual(before)
    })

    test('waiters get hints of releases and list asks every node, under a key prefix too', async () => {
      const open = (): Locks => {
        const locks = createLocks(cas(redisStore({ client: connect({ keyPrefix: 'app:' }) })))
        onTestFinished(() => locks.close())
        return locks
      }
      const [holder, waiter] = [open(), open()]
      const names = Array.from({ length: 10 }, () => randomUUID())
      const leases = await Promise.all(names.map((name) => holder.lock(name).acquire({ ttlMs: 600_000 })))
      // By a client that has not asked anything yet.
      expect((await open().list()).map(({ name }) => name).toSorted()).toEqual(names.toSorted())
      const turns = names.map((name) => waiter.lock(name).acquire({ waitMs: 60_000 }))
      await Promise.all(leases.map((lease) => lease.release()))
      await Promise.all(turns)
    })
  })
