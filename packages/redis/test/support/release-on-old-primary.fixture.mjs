import { systemClock } from '@locks/core/adapter'
import { redis } from '@locks/redis'
import { Redis } from 'ioredis'
import { randomUUID } from 'node:crypto'

// What happens while the process of a waiter is paused: its subscription gets a message, a failover begins, and the
// holder releases the lock on the primary that is being replaced.

const [primaryPort, sentinelPort, service = '', channel = '', name = '', attemptId = ''] =
  process.argv.slice(2)
const host = '127.0.0.1'
const primary = { host, port: Number(primaryPort) }
const sentinel = { host, port: Number(sentinelPort) }

const server = new Redis(primary)
const listener = new Redis({ ...sentinel, enableReadyCheck: false })
const promoted = new Promise((resolve) => listener.once('message', resolve))
await listener.subscribe('+failover-state-send-slaveof-noone')
const locks = redis({ connection: primary, prefix: '' })({
  clientId: randomUUID(),
  clock: systemClock,
  report: () => undefined,
})
await locks.inspect(name)
await server.publish(channel, 'wakes the subscription first')
const operator = new Redis({ ...sentinel, enableReadyCheck: false })
await operator.call('SENTINEL', 'FAILOVER', service)
await promoted
const outcome = await locks.release({ name, attemptId, fence: 0n, ttlMs: 0 })
await locks.close?.()
for (const client of [server, listener, operator]) client.disconnect()
process.stdout.write(outcome)
