import assert from 'node:assert/strict'
import { isLockError } from '../../adapter/lock-error.ts'
import type { Lease } from '../../api/contract.ts'
import type { FaultProxy } from '../fault-proxy.ts'
import type { Harness, TestClient } from '../harness.ts'
import type { TestAdapter } from '../test-adapter.ts'
import { acquireWhenReachable, assertHolder, inTime, pass, wired } from './observe.ts'
import { assertSoleHolder } from './steps.ts'

/** A client behind a proxy, and one that holds a lock over an undisturbed connection. */
export interface Pair {
  readonly client: TestClient & { readonly proxy: FaultProxy }
  readonly held: Lease
  /** A client without a proxy. */
  readonly observer: TestAdapter
}

/** How long a call may take while connections fail: the client's bound, and time to report it. */
const STORE_MS = 2_000

/** Calls begin at every moment while a client reconnects. */
const WAVE_MS = 15

export async function pair(h: Harness): Promise<Pair> {
  const [client, holder] = [await wired(h, { storeTimeoutMs: h.ms(STORE_MS) }), await h.client()]
  return { client, held: await holder.locks.lock(h.name('held')).acquire(), observer: h.adapter() }
}

/** Repeats `callAll` while connections open and close. */
export async function callMeanwhile(h: Harness, both: Pair, times: number): Promise<readonly Lease[]> {
  const waves: Promise<readonly Lease[]>[] = []
  for (let n = 0; n < times; n += 1) {
    const wave = callAll(h, both)
    // Failures are handled below, after all have begun.
    wave.catch(() => undefined)
    waves.push(wave)
    await pass(h.ms(WAVE_MS))
  }
  return (await allDone(waves)).flat()
}

/** Like `Promise.all`, but fails only when all have settled: a failed rule must not disturb others. */
export async function allDone<const T extends readonly unknown[]>(
  calls: T,
): Promise<{ -readonly [N in keyof T]: Awaited<T[N]> }> {
  await Promise.allSettled(calls)
  return Promise.all(calls)
}

/**
 * Acquires a lock that another client holds and free ones, all at once. Fails the rule unless every call ends, the held
 * lock is neither granted nor reported as free, the free ones are not refused, and each grant is held at the store too.
 */
export async function callAll(
  h: Harness,
  { client: { locks }, held, observer }: Pair,
): Promise<readonly Lease[]> {
  const free = (): Promise<Lease | null> => locks.lock(h.name('free')).tryAcquire()
  const [wanted, taken] = [
    [free(), free()],
    [locks.lock(held.name).tryAcquire(), locks.lock(held.name).tryAcquire()],
  ]
  const looks = [locks.inspect(held.name)]
  const all = Promise.allSettled([...wanted, ...taken, ...looks])
  await inTime('an end of every call', h.ms(STORE_MS * 3), all)
  for (const look of looks) {
    const state = await orUnavailable(look)
    assert.ok(state?.held !== false, 'a held lock was reported as free')
  }
  const leases: Lease[] = []
  for (const call of wanted) {
    const lease = await orUnavailable(call)
    assert.notEqual(lease, null, 'a free lock was reported as held')
    if (lease) leases.push(lease)
  }
  for (const call of taken) {
    const lease = await orUnavailable(call)
    assert.ok(!lease, `a held lock was granted with fence ${lease?.fence}, its holder has ${held.fence}`)
  }
  for (const lease of leases) {
    const state = await observer.adapter.inspect(lease.name)
    if (lease.state !== 'held') continue
    assert.ok(state.held, `${lease.name} was granted, but it is free`)
    if (h.capabilities.fencing !== 'none') assert.equal(state.holder?.fence, lease.fence)
  }
  return leases
}

/** The result of a call; undefined when the store could not be reached. Any other error fails the rule. */
export async function orUnavailable<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call
  } catch (error) {
    assert.ok(isLockError(error, 'LOCK_UNAVAILABLE'), `expected LOCK_UNAVAILABLE, got ${String(error)}`)
    return undefined
  }
}

/**
 * Releases the grants that a client got while connections failed. A hold bound to a connection may have ended with it,
 * and then its release reports that.
 */
export async function releaseAll(h: Harness, both: Pair, leases: readonly Lease[]): Promise<void> {
  await allDone(leases.map((lease) => release(h, both, lease)))
}

async function release(h: Harness, { observer }: Pair, lease: Lease): Promise<void> {
  const outcome = await lease.release().catch((error: unknown) => error)
  const lost = h.capabilities.kind !== 'lease' && isLockError(outcome, 'LOCK_LOST')
  const ended = outcome === undefined || lost || isLockError(outcome, 'LOCK_UNAVAILABLE')
  assert.ok(ended, `released as ${String(outcome)}`)
  // Repeated until it is confirmed, as a caller may do.
  if (isLockError(outcome, 'LOCK_UNAVAILABLE')) await again(h, lease)
  await h.eventually(`${lease.name} is free`, h.ms(STORE_MS * 3), async () => {
    return !(await observer.adapter.inspect(lease.name)).held
  })
}

async function again(h: Harness, lease: Lease): Promise<void> {
  await h.eventually('a confirmed release', h.ms(STORE_MS * 5), async () => {
    const outcome = await lease.release().catch((error: unknown) => error)
    return !isLockError(outcome, 'LOCK_UNAVAILABLE')
  })
}

/** Fails the rule unless the client works as before, and the other one is still the only holder. */
export async function worksAgain(h: Harness, { client, held }: Pair): Promise<void> {
  client.proxy.pass()
  const lease = await acquireWhenReachable(h, client, h.name('again'))
  await assertHolder(h, lease)
  await lease.release()
  assert.equal(await client.locks.lock(held.name).tryAcquire(), null)
  await assertSoleHolder(h, held)
}
