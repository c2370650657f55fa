import { createLocks } from '@locks/core'
import type { Locks } from '@locks/core'
import { redlock } from '@locks/redlock'
import { expect, onTestFinished, test } from 'vitest'
import { redisCommand } from '../../../conformance/services/index.ts'
import { hammerPrune } from '../../../conformance/test-support/prune-hammer.ts'
import { servers, uniqueName } from './support/bed.ts'

// What nodes keep of names that are not used any more.

const IDLE_MS = 60_000
const tokenOf = (lock: string): string => `redisson_lock_token:{locks:${lock}}`

test('a fence that came from a node whose clock is ahead is kept until every clock is past it', async () => {
  const { servers: nodes } = await servers(3)
  const locks = createLocks(redlock({ nodes: urlsOf(nodes), fenceIdleMs: IDLE_MS }))
  onTestFinished(() => locks.close())
  const lock = uniqueName()
  const aheadMs = 3_600_000
  const ahead = BigInt(Date.now() + aheadMs) * 1_000n
  // On two of three, so that every majority has it: a grant does not wait for the third.
  for (const node of nodes.slice(0, 2)) await redisCommand(node, 'SET', tokenOf(lock), String(ahead))
  const lease = await locks.lock(lock).acquire()
  await lease.release()
  expect(lease.fence).toBe(ahead + 1n)
  const left = await Promise.all(
    nodes.map(async (node) => {
      const isRaised = (await redisCommand(node, 'GET', tokenOf(lock))) === String(lease.fence)
      return isRaised ? Number(await redisCommand(node, 'PTTL', tokenOf(lock))) : undefined
    }),
  )
  const raised = left.filter((leftMs) => leftMs !== undefined)
  expect(raised.length).toBeGreaterThanOrEqual(2)
  for (const leftMs of raised) expect(leftMs).toBeGreaterThan(aheadMs - 60_000)
  // Ahead of every clock, so it is not pruned either.
  await locks.prune({ idleMs: 0 })
  await locks.with(lock, ({ fence }) => expect(fence).toBeGreaterThan(lease.fence))
})

test('a name that is pruned while others acquire it has one holder, and its fences rise', async () => {
  const { servers: nodes } = await servers(3)
  const open = (): Locks => {
    const locks = createLocks(redlock({ nodes: urlsOf(nodes) }))
    onTestFinished(() => locks.close())
    return locks
  }
  await hammerPrune(open, uniqueName(), { tries: 60, atLeast: 10 })
})

function urlsOf(nodes: readonly { readonly host: string; readonly port: number }[]): readonly string[] {
  return nodes.map(({ host, port }) => `redis://${host}:${port}`)
}
