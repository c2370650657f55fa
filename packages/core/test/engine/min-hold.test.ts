import { describe, expect, test } from 'vitest'
import { createLocks, LockError } from '../../src/index.ts'
import { codeOf, harness, reasonOf, thrownCode, watch } from '../support/harness.ts'
import { fail, loseReply, slow } from '../support/steps.ts'
import { ScriptedStore } from '../support/scripted-adapter.ts'

/** What remains of `minHoldMs` after `elapsedMs` by the slowest clock that is allowed for: 1 % and 2 ms slow. */
const rest = (minHoldMs: number, elapsedMs: number): number =>
  Math.ceil(minHoldMs - Math.max(0, elapsedMs * 0.99 - 2))

describe('a release under minHoldMs', () => {
  test('asks the store to keep the name for what remains since the answer to the acquire', async () => {
    const { clock, store, locks } = harness()
    store.next('attempt', slow(100, 400))
    const acquired = watch(locks.lock('a').acquire({ minHoldMs: 5_000 }))
    await clock.advance(500)
    await clock.advance(1_000)
    await acquired.value?.release()
    // The store may have made the grant as late as the answer.
    expect(store.keeps).toEqual([rest(5_000, 1_000)])
  })

  test('is an ordinary one without it, and once the time is over', async () => {
    const { clock, store, locks } = harness()
    await (await locks.lock('a').acquire()).release()
    const lease = await locks.lock('a').acquire({ minHoldMs: 1_000 })
    await clock.advance(1_100)
    await lease.release()
    expect(store.keeps).toEqual([undefined, undefined])
  })

  test('that is tried again asks for what remains then', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ minHoldMs: 5_000 })
    store.next('release', fail(), loseReply())
    const released = watch(lease.release())
    await clock.advance(5_000)
    expect(released.state).toBe('fulfilled')
    expect(store.keeps).toHaveLength(3)
    const [first = 0, second = 0, third = 0] = store.keeps
    expect(first).toBe(5_000)
    expect(second).toBeLessThanOrEqual(first)
    expect(third).toBeLessThanOrEqual(second)
  })

  test('of a re-entered hold keeps to the latest end, each counted from its own acquire', async () => {
    const { clock, store, locks } = harness()
    const outer = await locks.lock('a').acquire({ owner: 'me', minHoldMs: 2_000 })
    await clock.advance(1_500)
    const inner = await locks.lock('a').acquire({ owner: 'me', minHoldMs: 1_000 })
    await outer.release()
    expect(store.keeps).toEqual([])
    await inner.release()
    expect(store.keeps).toEqual([rest(2_500, 1_500)])
  })

  test('by the end of a callback, by close and by a loss is the same', async () => {
    const { clock, store, locks } = harness()
    await locks.with('a', { minHoldMs: 3_000 }, () => undefined)
    await locks.lock('b').acquire({ minHoldMs: 30_000, ttlMs: 1_000, renew: false })
    await clock.advance(1_000)
    await locks.lock('c').acquire({ minHoldMs: 7_000 })
    await locks.close()
    expect(store.keeps).toEqual([3_000, rest(30_000, 988), 7_000])
  })

  test('goes on with what remained where the lease was handed over', async () => {
    const { clock, store, locks } = harness({ locks: { minHoldMs: 9_000 } })
    const lease = await locks.lock('a').acquire({ minHoldMs: 4_000 })
    await clock.advance(1_000)
    const text = lease.serialize()
    const next = await locks.resume(text)
    await clock.advance(500)
    await next.release()
    expect(store.keeps).toEqual([rest(rest(4_000, 1_000), 500)])
    const plain = (await locks.lock('b').acquire({ minHoldMs: 0 })).serialize()
    await (await locks.resume(plain)).release()
    expect(store.keeps[1]).toBeUndefined()
  })

  test('is not touched by extend', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire({ minHoldMs: 4_000 })
    await lease.extend(60_000)
    await lease.release()
    expect(store.keeps).toEqual([4_000])
  })
})

test('minHoldMs above maxHoldMs is refused wherever the two meet, before the store is touched', async () => {
  const { store, locks } = harness({ locks: { maxHoldMs: 1_000 } })
  const refused = 'LOCK_INVALID_ARGUMENT'
  expect(codeOf(await reasonOf(locks.lock('a').acquire({ minHoldMs: 1_001 })))).toBe(refused)
  expect(codeOf(await reasonOf(locks.lock('a').tryAcquire({ minHoldMs: 1_001 })))).toBe(refused)
  expect(codeOf(await reasonOf(locks.once('a', { minHoldMs: 1_001 }, () => 1)))).toBe(refused)
  expect(thrownCode(() => locks.lock('a', { minHoldMs: 1_001 }))).toBe(refused)
  const { factory } = new ScriptedStore()
  expect(thrownCode(() => createLocks(factory, { minHoldMs: 2, maxHoldMs: 1 }))).toBe(refused)
  const short = { minHoldMs: 1_000, ttlMs: 10 }
  expect(store.totalCalls).toBe(0)
  await (await locks.lock('a').acquire(short)).release()
})

describe('once', () => {
  test('runs and returns the value, or returns the holder without waiting', async () => {
    const { store, locks } = harness({ locks: { waitMs: 60_000 } })
    const job = { minHoldMs: 1_000 }
    expect(await locks.once('a', job, ({ name }) => name)).toEqual({ ran: true, value: 'a' })
    store.seize('a')
    const outcome = await locks.once('a', job, () => 1)
    expect(outcome).toEqual({ ran: false, holder: { owner: 'stranger', fence: 2n } })
    expect(store.keeps).toEqual([1_000])
  })

  test('does not re-enter: neither with the same owner nor inside its own callback', async () => {
    const { clock, locks } = harness()
    const job = { minHoldMs: 1_000, owner: 'me' }
    let inner: unknown
    const all = Promise.all([1, 2].map(() => locks.once('a', job, () => 1)))
    await clock.advance(100)
    expect((await all).map(({ ran }) => ran)).toEqual([true, false])
    await locks.once('b', { minHoldMs: 1_000 }, async ({ owner }) => {
      const again = await locks.once('b', { minHoldMs: 1_000 }, () => 1)
      inner = !again.ran && again.holder?.owner === owner
    })
    expect(inner).toBe(true)
    await locks.with('c', { owner: 'me' }, async () => {
      expect(await locks.once('c', job, () => 1)).toMatchObject({ ran: false, holder: { owner: 'me' } })
    })
  })

  test('inside a callback whose hold is lost does not run', async () => {
    const { clock, locks } = harness()
    const outer = locks.once('a', { minHoldMs: 1_000, ttlMs: 900, renew: false }, () => {
      clock.block(900)
      return locks.once('a', { minHoldMs: 1_000 }, () => 1)
    })
    expect(codeOf(await reasonOf(outer))).toBe('LOCK_LOST')
  })

  test('waits for waitMs, and then runs or returns the holder', async () => {
    const { clock, store, locks } = harness()
    store.seize('a', 1_000)
    const early = watch(locks.once('a', { minHoldMs: 1_000, waitMs: 500 }, () => 1))
    await clock.advance(500)
    expect(early.value).toMatchObject({ ran: false })
    const late = watch(locks.once('a', { minHoldMs: 1_000, waitMs: 5_000 }, () => 1))
    await clock.advance(5_000)
    expect(late.value).toEqual({ ran: true, value: 1 })
  })

  test('throws what goes wrong: an outage, an abort, the error of the callback, a time-out within it', async () => {
    const { store, locks } = harness()
    const job = { minHoldMs: 1_000 }
    store.next('attempt', fail())
    const once = { ...job, retry: { attempts: 1 } }
    expect(codeOf(await reasonOf(locks.once('a', once, () => 1)))).toBe('LOCK_UNAVAILABLE')
    const signal = AbortSignal.abort(new Error('enough'))
    await expect(locks.once('a', { ...job, signal }, () => 1)).rejects.toThrow('enough')
    const other = new LockError('LOCK_TIMEOUT', 'another lock is held')
    const ended = AbortSignal.abort(other)
    expect(await reasonOf(locks.once('a', { ...job, signal: ended }, () => 1))).toBe(other)
    await expect(locks.once('a', job, () => Promise.reject(new Error('failed')))).rejects.toThrow('failed')
    store.seize('b')
    const inner = locks.once('c', job, () => locks.lock('b').acquire({ waitMs: 0 }))
    expect(codeOf(await reasonOf(inner))).toBe('LOCK_TIMEOUT')
  })

  test('needs to know for how long', async () => {
    const { store, locks } = harness()
    expect(codeOf(await reasonOf(locks.once('a', { minHoldMs: 0 }, () => 1)))).toBe('LOCK_INVALID_ARGUMENT')
    expect(store.totalCalls).toBe(0)
  })
})
