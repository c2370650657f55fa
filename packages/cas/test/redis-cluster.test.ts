import { redisStore } from '@locks/cas'
import { startFaultProxy } from '@locks/core/conformance'
import { Cluster, Command } from 'ioredis'
import type { NatMap } from 'ioredis'
import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { isSelected } from '../../../conformance/selection.ts'
import { startService } from '../../../conformance/services/index.ts'
import { bare } from './support.ts'

/** A name whose record is on the first node. */
function nameOnFirst(): string {
  for (;;) {
    const name = randomUUID()
    if (Number(new Command('get', [`locks:cas:${name}`]).getSlot()) < 5_000) return name
  }
}

if (isSelected('cas-redis'))
  test('on a Cluster, a release that was sent twice does not tell the next holder from a loss', async () => {
    await using service = await startService('redis-cluster')
    const first = service.server('node-1')
    const proxy = await startFaultProxy({ host: first.host, port: first.port })
    onTestFinished(() => proxy.close())
    const connect = (natMap: NatMap = {}): Cluster => {
      const client = new Cluster(
        service.servers.map(({ host, port }) => ({ host, port })),
        { slotsRefreshTimeout: 10_000, natMap },
      )
      onTestFinished(() => client.disconnect())
      return client
    }
    const natMap = { [`${first.host}:${first.port}`]: { host: proxy.host, port: proxy.port } }
    const [holder, next] = [
      bare(redisStore({ client: connect(natMap) })),
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
