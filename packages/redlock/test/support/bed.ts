import { createLocks } from '@locks/core'
import type { Locks, LocksOptions } from '@locks/core'
import { startFaultProxy } from '@locks/core/conformance'
import type { FaultProxy, TestAdapter } from '@locks/core/conformance'
import { redlock } from '@locks/redlock'
import type { RedlockOptions } from '@locks/redlock'
import { randomUUID } from 'node:crypto'
import { setTimeout as pass } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import { redisCommand, startService } from '../../../../conformance/services/index.ts'
import type { Address, Server, Service, Settings } from '../../../../conformance/services/index.ts'
import { bareAdapter } from '../../../../conformance/test-support/bare-adapter.ts'

export { until } from '../../../../conformance/test-support/until.ts'

/** Independent servers for one test. */
export async function servers(count: number, settings?: Settings): Promise<Service> {
  const service = await startService('redis-independent', {
    count,
    needsControl: true,
    ...(settings && { settings }),
  })
  onTestFinished(() => service.close())
  return service
}

/** Without a prefix, so that the name of a lock is its key. */
export function over(nodes: readonly Address[], more: Partial<RedlockOptions> = {}): RedlockOptions {
  return { nodes: nodes.map(({ host, port }) => ({ connection: { host, port } })), prefix: '', ...more }
}

export function connect(options: RedlockOptions, locksOptions: LocksOptions = {}): Locks {
  const locks = createLocks(redlock(options), locksOptions)
  onTestFinished(() => locks.close())
  return locks
}

export function bare(options: RedlockOptions): TestAdapter {
  return bareAdapter(redlock(options))
}

export async function proxiesOf(all: readonly Server[]): Promise<readonly FaultProxy[]> {
  const proxies = await Promise.all(all.map(({ host, port }) => startFaultProxy({ host, port })))
  onTestFinished(async () => {
    await Promise.all(proxies.map((proxy) => proxy.close()))
  })
  return proxies
}

/** A holder field as Redisson writes it. */
export function somebody(thread: number): string {
  return `${randomUUID()}:${thread}`
}

export function uniqueName(): string {
  return `test:lock:${randomUUID()}`
}

/** On how many of the servers the name is held. */
export async function heldOn(all: readonly Server[], lock: string): Promise<number> {
  const counts = await Promise.all(all.map((server) => redisCommand(server, 'EXISTS', lock)))
  return counts.filter((count) => count === 1).length
}

/** All of them take one lock again and again. Returns how many held it at once, and how often it was granted. */
export async function takeTurns(
  clients: readonly Locks[],
  cycles: number,
): Promise<{ readonly most: number; readonly grants: number }> {
  const lock = uniqueName()
  let [inside, most, grants] = [0, 0, 0]
  await Promise.all(
    clients.map(async (locks) => {
      for (let n = 0; n < cycles; n += 1)
        await locks.with(lock, { waitMs: 100_000 }, async () => {
          most = Math.max(most, ++inside)
          grants += 1
          await pass(2)
          inside -= 1
        })
    }),
  )
  return { most, grants }
}
