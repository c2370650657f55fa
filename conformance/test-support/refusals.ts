import { createLocks, isLockError } from '@locks/core'
import type { AdapterFactory, Locks } from '@locks/core'
import { faulty, inTime } from '@locks/core/conformance'
import { randomUUID } from 'node:crypto'
import { expect, onTestFinished } from 'vitest'
import type { Server } from '../services/index.ts'
import { scaled } from '../services/timing.ts'

/** Far longer than a refusal takes: a call that is tried again does not end within its bound. */
const STORE_TIMEOUT_MS = scaled(30_000)

/**
 * Fails the test unless tryAcquire and acquire reject after one attempt each, with an error that trying again cannot
 * fix and whose message matches `saying`.
 */
export async function expectRefusedAtOnce(
  factory: AdapterFactory,
  saying: RegExp,
  name: string = `refused:${randomUUID()}`,
): Promise<void> {
  const { factory: counted, faults } = faulty(factory)
  const locks = createLocks(counted, { storeTimeoutMs: STORE_TIMEOUT_MS })
  onTestFinished(() => locks.close())
  const lock = locks.lock(name)
  for (const call of [() => lock.tryAcquire(), () => lock.acquire({ waitMs: STORE_TIMEOUT_MS })]) {
    const outcome = call().catch((error: unknown) => error)
    const error = await inTime('a refusal', scaled(10_000), outcome)
    if (!isLockError(error, 'LOCK_INVALID_ARGUMENT')) throw error
    expect(error.message).toMatch(saying)
  }
  expect(faults.calls.attempt).toBe(2)
}

/** A server that was killed is an outage after storeTimeoutMs for each call, and used again once it is back. */
export async function expectOneBound(factory: AdapterFactory, servers: readonly Server[]): Promise<void> {
  const storeTimeoutMs = scaled(2_000)
  const locks: Locks = createLocks(factory, { storeTimeoutMs })
  const fresh = createLocks(factory, { storeTimeoutMs })
  onTestFinished(async () => void (await Promise.all([locks.close(), fresh.close()])))
  const name = `bound:${randomUUID()}`
  const warmUp = await inTime('a first lock', scaled(20_000), untilGranted(locks, name))
  await warmUp.release()
  await Promise.all(servers.map((server) => server.kill()))
  for (const client of [locks, locks, fresh, fresh]) {
    const calledAt = performance.now()
    const outcome = client.lock(name).tryAcquire()
    const error = await inTime(
      'an end',
      storeTimeoutMs + scaled(1_500),
      outcome.catch((reason: unknown) => reason),
    )
    if (!isLockError(error, 'LOCK_UNAVAILABLE')) throw error
    expect(performance.now() - calledAt).toBeGreaterThanOrEqual(storeTimeoutMs * 0.9)
  }
  await Promise.all(servers.map((server) => server.restart()))
  for (const client of [locks, fresh])
    await (
      await inTime('a lock of the server that is back', scaled(30_000), untilGranted(client, name))
    ).release()
}

async function untilGranted(locks: Locks, name: string): ReturnType<ReturnType<Locks['lock']>['acquire']> {
  for (;;)
    try {
      return await locks.lock(name).acquire()
    } catch (error) {
      if (!isLockError(error, 'LOCK_UNAVAILABLE')) throw error
    }
}
