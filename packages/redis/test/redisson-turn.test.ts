import { Redis } from 'ioredis'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { redisCommand, startService } from '../../../conformance/services/index.ts'
import { at, bare, enqueue, exists, uniqueName, until } from './support/bed.ts'
import type { Waiting } from './support/bed.ts'

const service = await startService('redis')
afterAll(() => service.close())
const server = service.server('redis')

const never = new AbortController().signal

/** A lock with so many waiters, left free by its release because a subscriber listens as Redisson's waiters do. */
async function leftForRedisson(count: number): Promise<readonly Waiting[]> {
  const java = new Redis({ host: server.host, port: server.port })
  onTestFinished(() => java.disconnect())
  for (;;) {
    const lock = uniqueName()
    const holder = bare(at(server))
    const grant = await holder.take(holder.request(lock))
    await java.subscribe(`redisson_lock__channel:{${lock}}`)
    const waiters: Waiting[] = []
    for (let n = 0; n < count; n += 1) waiters.push(await enqueue(at(server), lock))
    await holder.adapter.release(grant)
    // About every other time.
    if (!(await exists(server, lock))) return waiters
  }
}

/** Whether the last of them gets a hint, and the lock by that. */
async function lastGets(waiters: readonly Waiting[]): Promise<void> {
  const last = waiters.at(-1)
  await last?.adapter.wait?.(last.wanted, 600_000, never)
  expect(await last?.adapter.attempt(last.wanted)).toMatchObject({ attemptId: last?.wanted.attemptId })
}

test("on Redisson's turn the second in the queue looks too: the first may be dead by then", async () => {
  const waiters = await leftForRedisson(2)
  const [first] = waiters
  await first?.adapter.close?.()
  const channel = `locks_grants:${first?.wanted.attemptId.slice(0, 36)}`
  // Until then, the server would still give the lock to the first.
  await until(async () => {
    const [, subscribers] = [await redisCommand(server, 'PUBSUB', 'NUMSUB', channel)].flat()
    return Number(subscribers) === 0
  })
  await lastGets(waiters)
})

test("when the waiters that got a hint on Redisson's turn leave, the next in the queue looks", async () => {
  const waiters = await leftForRedisson(3)
  for (const { adapter, wanted } of waiters.slice(0, 2)) await adapter.withdraw?.(wanted)
  await lastGets(waiters)
})
