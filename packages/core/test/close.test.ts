import { describe, expect, test } from 'vitest'
import type { Lease } from '../src/index.ts'
import { codeOf, harness, reasonOf, thrownCode, watch } from './support/harness.ts'
import { fail, gate, hang, loseReply, noClock, slow } from './support/steps.ts'
import { settled } from './support/virtual-clock.ts'

/** A lease whose release the store did not confirm. */
async function unconfirmedRelease(): Promise<ReturnType<typeof harness> & { readonly lease: Lease }> {
  const made = harness()
  const lease = await made.locks.lock('a').acquire()
  made.store.always('release', fail())
  const released = watch(lease.release())
  await made.clock.advance(6_000)
  expect(codeOf(released.error)).toBe('LOCK_UNAVAILABLE')
  return { ...made, lease }
}

describe('close', () => {
  test('releases what is held, tells its holders, and closes the adapter last', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    const { signal } = lease
    await locks.lock('b').acquire()
    await locks.close()
    expect([store.holder('a'), store.holder('b')]).toEqual([undefined, undefined])
    expect(store.log.slice(-3)).toEqual(['release', 'release', 'close'])
    expect([signal.aborted, codeOf(signal.reason)]).toEqual([true, 'LOCK_CLOSED'])
    expect(thrownCode(() => lease.assertHeld())).toBe('LOCK_CLOSED')
    expect(lease.state).toBe('released')
    expect(codeOf(await reasonOf(lease.release()))).toBe('LOCK_CLOSED')
    await clock.advance(60_000)
    expect(clock.armed).toBe(0)
    expect(store.calls.renew).toBe(0)
  })

  test('ends every wait with LOCK_CLOSED, at the store and in the queue of the client', async () => {
    const { store, locks } = harness()
    store.seize('a')
    const waits = [1, 2, 3].map(() => watch(locks.lock('a').acquire()))
    await settled()
    const closed = watch(locks.close())
    await settled()
    expect(waits.map(({ error }) => codeOf(error))).toEqual(['LOCK_CLOSED', 'LOCK_CLOSED', 'LOCK_CLOSED'])
    expect(closed.state).toBe('fulfilled')
    expect(store.log.slice(-2)).toEqual(['withdraw', 'close'])
  })

  test('also ends the chance to repeat a release that was not confirmed', async () => {
    const { store, locks, lease } = await unconfirmedRelease()
    store.always('release')
    await locks.close()
    expect(codeOf(await reasonOf(lease.release()))).toBe('LOCK_CLOSED')
    expect(store.log.at(-1)).toBe('close')
  })

  test('waits for a release that is being repeated', async () => {
    const { clock, store, locks, lease } = await unconfirmedRelease()
    store.always('release', slow(100))
    const again = watch(lease.release())
    const closed = watch(locks.close())
    await clock.advance(50)
    expect(closed.state).toBe('pending')
    await clock.advance(50)
    expect([again.state, closed.state]).toEqual(['fulfilled', 'fulfilled'])
    expect(store.holder('a')).toBeUndefined()
  })

  test('does not keep a call under way from ending within storeTimeoutMs', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    for (const method of ['inspect', 'renew'] as const) store.always(method, hang)
    const calls = [watch(locks.inspect('a')), watch(lease.extend())]
    await locks.close()
    await clock.advance(5_000)
    expect(calls.map(({ error }) => codeOf(error))).toEqual(['LOCK_UNAVAILABLE', 'LOCK_CLOSED'])
    expect([clock.armed, clock.keepsAlive]).toEqual([0, false])
  })

  test('asks once, not on and on, to withdraw what a call that outlived it may have done', async () => {
    const { clock, store, locks } = harness()
    let failLate = (): void => undefined
    const late = new Promise<never>((_, reject) => {
      failLate = () => reject(new Error('closed'))
    })
    store.next('attempt', () => late)
    void watch(locks.lock('a').acquire())
    await settled()
    const closed = watch(locks.close())
    await clock.advance(5_000)
    expect(closed.state).toBe('fulfilled')
    const { withdraw } = store.calls
    store.always('withdraw', fail())
    failLate()
    await settled()
    expect(clock.keepsAlive).toBe(false)
    await clock.advance(60_000)
    expect([store.calls.withdraw, clock.armed]).toEqual([withdraw + 1, 0])
  })

  test('refuses what comes after it', async () => {
    const { store, locks } = harness()
    const lock = locks.lock('a')
    const sequencer = 'v1.exclusive.1.YQ'
    await locks.close()
    const { totalCalls } = store
    for (const call of [
      lock.acquire(),
      lock.tryAcquire(),
      lock.with(() => 1),
      lock.inspect(),
      locks.inspect('a'),
    ])
      expect(codeOf(await reasonOf(call))).toBe('LOCK_CLOSED')
    expect(codeOf(await reasonOf(locks.checkSequencer(sequencer)))).toBe('LOCK_CLOSED')
    expect(codeOf(await reasonOf(locks.resume('text')))).toBe('LOCK_CLOSED')
    expect(store.totalCalls).toBe(totalCalls)
  })

  test('is one close however often it is asked for', async () => {
    const { store, locks } = harness()
    await Promise.all([locks.close(), locks.close(), locks[Symbol.asyncDispose]()])
    await locks.close()
    expect(store.calls.close).toBe(1)
  })

  test('called again by a listener is the same close, and the listener gets no lock', async () => {
    const { store, locks } = harness()
    const again: unknown[] = []
    for (const name of ['a', 'b'])
      (await locks.lock(name).acquire()).signal.addEventListener('abort', () => {
        again.push(watch(locks.lock(name).acquire()), watch(locks.close()))
      })
    await locks.close()
    await settled()
    expect(again).toMatchObject(
      [1, 2].flatMap(() => [{ error: { code: 'LOCK_CLOSED' } }, { state: 'fulfilled' }]),
    )
    expect([store.holder('a'), store.holder('b')]).toEqual([undefined, undefined])
    expect(store.log.slice(-3)).toEqual(['release', 'release', 'close'])
    expect(store.calls.close).toBe(1)
  })

  test('called by a listener of a loss waits until the lost hold was released at the store', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    store.always('renew', loseReply())
    lease.signal.addEventListener('abort', () => void locks.close())
    await clock.advance(900)
    expect(store.log.slice(-2)).toEqual(['release', 'close'])
    expect(store.holder('a')).toBeUndefined()
  })

  test('is bounded although the store hangs in everything', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 1_000 } })
    await locks.lock('a').acquire()
    for (const method of ['attempt', 'withdraw', 'release', 'renew', 'close'] as const)
      store.always(method, hang)
    void watch(locks.lock('b').acquire())
    await settled()
    const closed = watch(locks.close())
    await clock.advance(3_000)
    expect(codeOf(closed.error)).toBe('LOCK_UNAVAILABLE')
    await clock.advance(60_000)
    expect(clock.keepsAlive).toBe(false)
  })

  test('is bounded although the store fails in everything', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 1_000 } })
    await locks.lock('a').acquire()
    for (const method of ['attempt', 'withdraw', 'release', 'renew'] as const) store.always(method, fail())
    void watch(locks.lock('b').acquire())
    await settled()
    const closed = watch(locks.close())
    await clock.advance(3_000)
    expect(closed.state).toBe('fulfilled')
    expect(clock.armed).toBe(0)
  })

  test('waits for a release that is under way', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    store.next('release', slow(200))
    const released = watch(lease.release())
    const closed = watch(locks.close())
    await clock.advance(100)
    expect(store.calls.close).toBe(0)
    await clock.advance(100)
    expect([released.state, closed.state]).toEqual(['fulfilled', 'fulfilled'])
    expect(store.holder('a')).toBeUndefined()
  })

  test('waits for the answer of an attempt under way, to withdraw it before the adapter is closed', async () => {
    const { clock, store, locks } = harness()
    store.next('attempt', slow(200))
    const acquired = watch(locks.lock('a').acquire())
    await settled()
    const closed = watch(locks.close())
    await clock.advance(300)
    expect([codeOf(acquired.error), closed.state]).toEqual(['LOCK_CLOSED', 'fulfilled'])
    expect(store.holder('a')).toBeUndefined()
    expect(store.log.at(-1)).toBe('close')
  })

  test('calls a hold lost, not closed, that was over before', async () => {
    const { clock, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900, renew: false })
    clock.block(900)
    await locks.close()
    expect(lease.state).toBe('lost')
    expect(codeOf(lease.signal.reason)).toBe('LOCK_LOST')
  })

  test('does not wait for the callbacks of with: their signal aborts', async () => {
    const { locks } = harness()
    const { step, open } = gate()
    const running = watch(locks.with('a', () => step(() => 'done', noClock)))
    await settled()
    await locks.close()
    expect(running.state).toBe('pending')
    open()
    await settled()
    expect(codeOf(running.error)).toBe('LOCK_CLOSED')
  })
})
