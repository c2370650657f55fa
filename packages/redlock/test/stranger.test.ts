import { assertInTime } from '@locks/core/conformance'
import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { redisCommand } from '../../../conformance/services/index.ts'
import type { Server } from '../../../conformance/services/index.ts'
import { connect, over, servers, uniqueName, until } from './support/bed.ts'

// What a user that may publish to every channel of every node, and nothing else, can do to waiters.

const login = { username: 'stranger', password: 'only-publish' }

async function strangerAt(node: Server): Promise<Redis> {
  const rights = ['on', `>${login.password}`, 'resetkeys', 'allchannels', '-@all', '+publish']
  await redisCommand(node, 'ACL', 'SETUSER', login.username, ...rights)
  const { host, port } = node
  const client = new Redis({ host, port, ...login, enableReadyCheck: false, disableClientInfo: true })
  onTestFinished(() => client.disconnect())
  client.on('error', () => undefined)
  return client
}

/** How many scripts ran so far, on all nodes. */
async function scriptsRun(nodes: readonly Server[]): Promise<number> {
  const stats = await Promise.all(nodes.map((node) => redisCommand(node, 'INFO', 'commandstats')))
  return stats
    .flatMap((text) => [...String(text).matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)])
    .reduce((sum, [, calls]) => sum + Number(calls), 0)
}

test('hints that a stranger publishes make a waiter look a bounded number of times, and grant nothing', async () => {
  const { servers: nodes } = await servers(3)
  const strangers = await Promise.all(nodes.map(strangerAt))
  await expect(strangers[0]?.get('any')).rejects.toThrow('NOPERM')
  const [holder, waiter] = [connect(over(nodes)), connect(over(nodes))]
  const lock = uniqueName()
  const lease = await holder.lock(lock).acquire({ renew: false, ttlMs: 600_000 })
  const turn = waiter.lock(lock).acquire({ waitMs: 60_000 })
  const channel = `redisson_lock__channel:{${lock}}`
  const listens = async (node: Server): Promise<boolean> =>
    String(await redisCommand(node, 'PUBSUB', 'NUMSUB', channel)).endsWith(',1')
  await Promise.all(nodes.map((node) => until(() => listens(node))))

  const before = await scriptsRun(nodes)
  const startedAt = performance.now()
  while (performance.now() - startedAt < 3_000)
    for (const text of ['0', '1', '', 'granted', '0'.repeat(1_000)])
      await Promise.all(strangers.map((stranger) => stranger.publish(channel, text)))
  const seconds = (performance.now() - startedAt) / 1_000
  const looks = (await scriptsRun(nodes)) - before
  // It polls about as often as that without any hint.
  expect(looks).toBeLessThanOrEqual(10 + Math.ceil(seconds * 5))
  expect((await holder.inspect(lock)).holder?.fence).toBe(lease.fence)
  lease.assertHeld()

  const releasedAt = performance.now()
  await lease.release()
  const next = await turn
  await assertInTime('granted to the next', 2_000, performance.now() - releasedAt)
  expect(next.fence).toBeGreaterThan(lease.fence)
})
