import assert from 'node:assert/strict'
import { defaultOwner } from '../../adapter/attempt-id.ts'
import { isLockError } from '../../adapter/lock-error.ts'
import type { LockEventName, LockEvents } from '../../engine/events.ts'
import type { Lease } from '../../api/contract.ts'
import type { FaultProxy } from '../fault-proxy.ts'
import type { Harness, TestClient } from '../harness.ts'
import type { LocksOptions } from '../../api/options.ts'
import type { Bound } from '../time/bounds.ts'

export { assertInTime, inTime } from '../time/bounds.ts'

/** Lets a ttl or a period pass. To wait for an event, use `eventually`. */
export function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

export { lockError, rejectsWith } from '../lock-error.ts'

/** When and why the lease's signal aborts, without a call to the lease. */
export function lossOf({ signal }: Lease): Promise<{ readonly at: number; readonly reason: unknown }> {
  return new Promise((resolve) => {
    const aborted = (): void => resolve({ at: performance.now(), reason: signal.reason })
    if (signal.aborted) aborted()
    else signal.addEventListener('abort', aborted, { once: true })
  })
}

/**
 * Acquires what `before` holds, and fails the rule unless that lease is lost by then. Its clock decides, not its
 * signal: no timer runs while the event loop is blocked, and the grant may be read first.
 */
export async function acquireAfter({ locks }: TestClient, before: Lease, waitMs: number): Promise<Lease> {
  const lease = await locks.lock(before.name).acquire({ waitMs })
  assert.equal(before.state, 'lost', 'two holders')
  return lease
}

/** Fails the rule if `other` gets what `lease` holds. Throws `LOCK_LOST` if the lease is lost by now. */
export async function assertKept(h: Harness, lease: Lease, other: TestClient): Promise<void> {
  const stolen = await other.locks.lock(lease.name).tryAcquire()
  if (stolen !== null) assert.equal(lease.state, 'lost', 'two holders')
  await assertStillHeld(h, lease)
}

/** The next event with that name about `lock`. */
export function eventOf<K extends LockEventName>(
  { locks }: TestClient,
  event: K,
  lock: string,
): Promise<LockEvents[K]> {
  return new Promise((resolve) => {
    const off = locks.on(event, (payload) => {
      if (payload.lock !== lock) return
      off()
      resolve(payload)
    })
  })
}

/** Waits until an acquire is seen to wait, and fails if it ends before: the event would never come. */
export async function seenWaiting<T>(acquire: Promise<unknown>, event: Promise<T>): Promise<T> {
  const ended = acquire.then(() => {
    throw new Error('it ended before it was seen to wait')
  })
  return Promise.race([event, ended])
}

/** A lease, or a grant with its owner if that is not the default one. */
interface Held {
  readonly name: string
  readonly fence: bigint
  readonly attemptId?: string
  readonly owner?: string
  readonly assertHeld?: () => void
}

/** Fails the rule unless this one holds its name, according to the store. */
export async function assertHolder(h: Harness, held: Held): Promise<void> {
  const { name, fence, attemptId, owner = attemptId && defaultOwner(attemptId) } = held
  const { adapter } = h.adapter()
  const state = await adapter.inspect(name)
  // A lease that expired by its own clock is `LOCK_LOST`: the store is correct.
  if (!state.held) held.assertHeld?.()
  assert.ok(state.held, `${name} should be held, but it is free`)
  if (h.capabilities.fencing === 'none') assert.equal(state.holder?.owner, owner)
  else assert.equal(state.holder?.fence, fence, 'another client holds it')
}

/**
 * Like `free`, for a name that is being released in the background: soon, and not only when its ttl ends. It tries to
 * acquire the name: a wait that is being withdrawn may have it for a moment, and `inspect` need not show that.
 */
export async function soonFree(
  h: Harness,
  lock: string,
  within: number | Bound = h.ms(3_000),
): Promise<void> {
  const client = await h.client()
  await h.eventually(`${lock} can be acquired`, within, () => h.isFree(client, lock))
  await h.eventually(
    `nothing is left in the store for ${lock}`,
    within,
    async () => (await h.leftovers(lock)).length === 0,
  )
}

/** Ends the hold of `lock` by `holder`, like an operator, also on stores without `break`. */
export async function breakHold(h: Harness, holder: TestClient, lock: string): Promise<void> {
  const grant = holder.faults.grantOf(lock)
  assert.ok(grant, `${lock} was never granted`)
  assert.equal(await h.adapter().adapter.release(grant), 'released')
}

/**
 * Fails the rule unless the lease is valid. Where a hold ends with its connection, a pause of the machine leaves that
 * in doubt until its sockets are read.
 */
export async function assertStillHeld(h: Harness, lease: Lease): Promise<void> {
  await h.eventually('no doubt about the lease', h.ms(5_000), () => {
    try {
      lease.assertHeld()
      return true
    } catch (error) {
      if (isLockError(error, 'LOCK_UNAVAILABLE')) return false
      throw error
    }
  })
}

/** Acquires as soon as the store can be reached. Any error other than an outage fails the rule. */
export function acquireWhenReachable(h: Harness, { locks }: TestClient, lock: string): Promise<Lease> {
  return h.eventually('a grant once the store can be reached', h.ms(10_000), async () => {
    try {
      return await locks.lock(lock).acquire({ waitMs: h.ms(1_000) })
    } catch (error) {
      if (isLockError(error, 'LOCK_UNAVAILABLE')) return undefined
      throw error
    }
  })
}

/** A client behind a proxy, connected, with every fault ended before it is closed. */
export async function wired(
  h: Harness,
  options: LocksOptions = {},
): Promise<TestClient & { readonly proxy: FaultProxy }> {
  const client = await h.wireClient(options)
  h.onEnd(async () => client.proxy.pass())
  // The first connection may take longer than the client's time-out, which the rule chose for later calls.
  const lease = await acquireWhenReachable(h, client, h.name('warm-up'))
  await lease.release()
  return client
}

/** Every string that a program can see in a value: its keys and properties, recursively, including those of errors. */
export function textsIn(value: unknown, seen: Set<unknown> = new Set()): string[] {
  if (typeof value === 'string') return [value, ...value.split(/[\s"'`,;()[\]{}]+/)]
  if (typeof value !== 'object' || value === null || seen.has(value)) return []
  seen.add(value)
  return Reflect.ownKeys(value).flatMap((key) => [
    ...textsIn(key, seen),
    ...textsIn(Reflect.get(value, key), seen),
  ])
}
