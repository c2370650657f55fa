import { startChild } from '@locks/core/conformance'
import type { Child } from '@locks/core/conformance'
import type { Locks, LocksConfig } from '@locks/core'
import { randomUUID } from 'node:crypto'
import { expect, onTestFinished } from 'vitest'
import { scaled } from '../services/timing.ts'
import { startPeer } from './peer.ts'
import type { Held, Peer } from './peer.ts'

/** Longer than any test: what ends by itself then, no test has waited for. */
export const longMs = scaled(90_000)

/** A hand-over that waited for a lease to end would take much longer. */
export const promptMs = scaled(10_000)

/** What is promised beyond a lease: a look at the store, and a quarter of a second. */
export const graceMs = scaled(1_000)

export function uniqueName(): string {
  return `interop:${randomUUID()}`
}

/** A Java process that ends with the test. */
export async function java(program: string, args: readonly (string | number)[]): Promise<Peer> {
  const peer = await startPeer(program, args)
  onTestFinished(() => peer.kill())
  return peer
}

/** A Node process that ends with the test. */
export async function nodeProcess(config: LocksConfig, ttlMs: number): Promise<Child> {
  const child = await startChild()
  onTestFinished(() => child.kill())
  await child.call('open', { config, options: { ttlMs } })
  return child
}

/** How long after `act` the other side had what it waited for. */
export async function tookMs(act: () => Promise<unknown>, granted: Promise<unknown>): Promise<number> {
  const start = performance.now()
  await act()
  expect(await granted).toBeDefined()
  return performance.now() - start
}

/** All clients acquire and release one lock repeatedly. Returns the number of holds. */
export async function contend(
  clients: readonly Locks[],
  peers: readonly { take: () => Promise<Held | undefined>; peer: Peer }[],
  lock: string,
  cycles: number,
): Promise<number> {
  let [inside, grants] = [0, 0]
  const enter = async (): Promise<void> => {
    inside += 1
    grants += 1
    expect(inside).toBe(1)
    await new Promise((resolve) => setImmediate(resolve))
    inside -= 1
  }
  await Promise.all([
    ...clients.map(async (locks) => {
      for (let n = 0; n < cycles; n += 1) await locks.with(lock, { waitMs: longMs }, enter)
    }),
    ...peers.map(async ({ take, peer }) => {
      for (let n = 0; n < cycles; n += 1) {
        const held = await take()
        await enter()
        await peer.release(held)
      }
    }),
  ])
  return grants
}
