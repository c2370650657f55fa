import { describe, expect, test } from 'vitest'
import { LockError } from '../../src/index.ts'
import { codeOf, harness, watch } from '../support/harness.ts'
import { fail, gate, hang, loseReply, slow, swallow } from '../support/steps.ts'
import { settled } from '../support/virtual-clock.ts'

describe('a store that fails', () => {
  test('for a moment costs a retry with the same attempt id, and a lost reply costs no lock', async () => {
    const { clock, store, locks } = harness()
    store.next('attempt', loseReply(), fail())
    const acquired = watch(locks.lock('a').acquire())
    await clock.advance(1_000)
    expect(acquired.value?.state).toBe('held')
    expect(new Set(store.attempts.map(({ attemptId }) => attemptId)).size).toBe(1)
    expect(acquired.value?.fence).toBe(1n)
    expect(acquired.value?.remainingMs).toBeLessThanOrEqual((store.expiresAt('a') ?? 0) - clock.now())
  })

  test('for longer than storeTimeoutMs is LOCK_UNAVAILABLE with the cause, and the attempt is withdrawn', async () => {
    const { clock, store, locks } = harness()
    const cause = new Error('ECONNREFUSED')
    store.always('attempt', fail(cause))
    const acquired = watch(locks.lock('a').acquire({ waitMs: 60_000 }))
    await clock.advance(10_000)
    expect(acquired.error).toMatchObject({ code: 'LOCK_UNAVAILABLE', lock: 'a', cause })
    expect(store.calls.withdraw).toBe(1)
    expect(store.calls.attempt).toBeLessThan(60)
  })

  test('while it waits is an outage storeTimeoutMs after the failure, however long the wait would have been', async () => {
    const { clock, store, locks } = harness({
      store: { busy: { retryInMs: 30_000 }, wait: () => Promise.reject(new Error('ECONNRESET')) },
    })
    store.seize('a')
    const acquired = watch(locks.lock('a').acquire({ waitMs: 60_000 }))
    await settled()
    store.always('attempt', fail())
    await clock.advance(5_100)
    expect(codeOf(acquired.error)).toBe('LOCK_UNAVAILABLE')
  })

  test('is reported with its reason to those that wait for the withdrawal of an earlier attempt too', async () => {
    const { clock, store, locks } = harness()
    const cause = new Error('this is a standby')
    store.always('attempt', fail(cause))
    store.always('withdraw', fail(cause))
    const first = watch(locks.lock('a').tryAcquire())
    await clock.advance(5_000)
    expect(first.error).toMatchObject({ cause })
    const again = watch(locks.lock('a').acquire({ waitMs: 100 }))
    await clock.advance(200)
    expect(again.error).toMatchObject({ code: 'LOCK_UNAVAILABLE', cause })
  })

  test('is not taken for silent after a pause of our own, with the answer there to be read', async () => {
    const { clock, store, locks } = harness()
    const held = await locks.lock('held').acquire({ ttlMs: 60_000 })
    const answers = gate({ acted: true })
    const waiting = { waitMs: 60_000 }
    store.next('attempt', answers.step, answers.step, hang)
    store.next('release', answers.step)
    const answered = [
      watch(locks.lock('a').acquire(waiting)),
      watch(locks.lock('b').tryAcquire()),
      watch(held.release()),
    ]
    const silent = watch(locks.lock('c').acquire(waiting))
    await settled()
    clock.block(20_000)
    await clock.advance(0)
    expect([...answered, silent].map(({ state }) => state)).toEqual(Array(4).fill('pending'))
    answers.open()
    await clock.advance(1_000)
    expect(answered.map(({ state }) => state)).toEqual(Array(3).fill('fulfilled'))
    expect(codeOf(silent.error)).toBe('LOCK_UNAVAILABLE')
  })

  test('is not asked more often than retry.attempts', async () => {
    const { clock, store, locks } = harness()
    store.always('attempt', fail())
    const acquired = watch(locks.lock('a').acquire({ retry: { attempts: 2 } }))
    await clock.advance(10_000)
    expect(codeOf(acquired.error)).toBe('LOCK_UNAVAILABLE')
    expect(store.calls.attempt).toBe(2)
  })

  test('fails every tryAcquire after storeTimeoutMs, and with its reason: an outage is not null', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 2_000 } })
    const cause = new Error('ECONNREFUSED')
    store.always('attempt', fail(cause))
    store.always('withdraw', fail(cause))
    for (let call = 1; call <= 3; call += 1) {
      const tried = watch(locks.lock('a').tryAcquire())
      await clock.advance(1_999)
      expect(tried.state).toBe('pending')
      await clock.advance(1)
      expect(tried.error).toMatchObject({ code: 'LOCK_UNAVAILABLE', cause })
    }
  })

  test('for a moment costs a tryAcquire nothing but time', async () => {
    const { clock, store, locks } = harness()
    store.next('attempt', fail(), loseReply())
    const tried = watch(locks.lock('a').tryAcquire())
    await clock.advance(1_000)
    expect(tried.value?.fence).toBe(1n)
  })

  test('for a moment does not make a tryAcquire wait for a holder', async () => {
    const { clock, store, locks } = harness()
    store.seize('a')
    store.next('attempt', fail())
    const tried = watch(locks.lock('a').tryAcquire())
    await clock.advance(1_000)
    expect(tried.value).toBeNull()
    expect(store.calls.attempt).toBe(2)
  })

  test.each(['LOCK_UNSUPPORTED', 'LOCK_INVALID_ARGUMENT', 'LOCK_CLOSED'] as const)(
    'with %s is not asked again',
    async (code) => {
      const { clock, store, locks } = harness()
      const error = new LockError(code, 'no')
      store.always('attempt', fail(error))
      const acquired = watch(locks.lock('a').acquire())
      await clock.advance(10_000)
      expect(acquired.error).toBe(error)
      expect(store.calls.attempt).toBe(1)
    },
  )

  test('after it said busy makes the end of the wait an outage, not a time-out', async () => {
    const { clock, store, locks } = harness()
    store.seize('a')
    const acquired = watch(locks.lock('a').acquire({ waitMs: 3_000 }))
    await clock.advance(500)
    store.always('attempt', fail())
    await clock.advance(2_500)
    expect(codeOf(acquired.error)).toBe('LOCK_UNAVAILABLE')
  })

  test('does not look like another holder to a tryAcquire that comes meanwhile', async () => {
    const { clock, store, locks } = harness()
    store.seize('a')
    void watch(locks.lock('a').acquire({ waitMs: 60_000 }))
    await clock.advance(100)
    store.always('attempt', fail())
    await clock.advance(2_000)
    const tried = watch(locks.lock('a').tryAcquire())
    await clock.advance(10_000)
    expect(tried.value).not.toBeNull()
    expect(codeOf(tried.error)).toBe('LOCK_UNAVAILABLE')
  })

  test('does not look like another holder to queued waiters either', async () => {
    const { clock, store, locks } = harness()
    store.always('attempt', fail())
    store.always('withdraw', fail())
    const waiters = [1, 2, 3].map(() => watch(locks.lock('a').acquire({ waitMs: 2_000 })))
    await clock.advance(20_000)
    expect(waiters.map(({ error }) => codeOf(error))).toEqual(waiters.map(() => 'LOCK_UNAVAILABLE'))
  })
})

describe('a store that is silent', () => {
  test('is LOCK_UNAVAILABLE after storeTimeoutMs, although the wait would go on', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 2_000 } })
    store.always('attempt', hang)
    const acquired = watch(locks.lock('a').acquire({ waitMs: 60_000 }))
    await clock.advance(1_999)
    expect(acquired.state).toBe('pending')
    await clock.advance(1)
    expect(codeOf(acquired.error)).toBe('LOCK_UNAVAILABLE')
  })

  test('is LOCK_UNAVAILABLE when the wait is over first', async () => {
    const { clock, store, locks } = harness()
    store.always('attempt', hang)
    const acquired = watch(locks.lock('a').acquire({ waitMs: 300 }))
    await clock.advance(300)
    expect(codeOf(acquired.error)).toBe('LOCK_UNAVAILABLE')
  })

  test('is LOCK_UNAVAILABLE for a tryAcquire after storeTimeoutMs', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 300 } })
    store.always('attempt', hang)
    const tried = watch(locks.lock('a').tryAcquire())
    await clock.advance(300)
    expect(codeOf(tried.error)).toBe('LOCK_UNAVAILABLE')
  })

  test('is LOCK_UNAVAILABLE for queued waiters too', async () => {
    const { clock, store, locks } = harness()
    store.always('attempt', hang)
    const waiters = [1, 2, 3].map(() => watch(locks.lock('a').acquire({ waitMs: 2_000 })))
    await clock.advance(2_000)
    expect(waiters.map(({ error }) => codeOf(error))).toEqual(waiters.map(() => 'LOCK_UNAVAILABLE'))
  })

  test('a short silence at the end of a wait for a known holder is still a time-out', async () => {
    const { clock, store, locks } = harness()
    store.seize('a')
    store.always('attempt', slow(5))
    const acquired = watch(locks.lock('a').acquire({ waitMs: 3_000 }))
    await clock.advance(3_000)
    expect(codeOf(acquired.error)).toBe('LOCK_TIMEOUT')
  })

  test('and then answers: a grant that no caller waits for is withdrawn', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 300 } })
    const { step, open } = gate()
    store.next('attempt', step)
    const acquired = watch(locks.lock('a').acquire())
    await clock.advance(300)
    expect(acquired.state).toBe('rejected')
    open()
    await settled()
    expect(store.holder('a')).toBeUndefined()
  })

  test('that acted and never answers is cleaned up by the withdrawal', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 300 } })
    store.next('attempt', swallow)
    void watch(locks.lock('a').acquire())
    await clock.advance(299)
    expect(store.holder('a')).toBeDefined()
    await clock.advance(1)
    expect(store.holder('a')).toBeUndefined()
  })
})

describe('a grant older than its ttl', () => {
  test('is never returned: it is withdrawn and tried again under a new id', async () => {
    const { clock, store, locks } = harness()
    store.next('attempt', slow(0, 1_000))
    const acquired = watch(locks.lock('a').acquire({ ttlMs: 900 }))
    await clock.advance(1_000)
    expect(acquired.state).toBe('pending')
    await clock.advance(1_000)
    expect(acquired.value?.state).toBe('held')
    expect(new Set(store.attempts.map(({ attemptId }) => attemptId)).size).toBe(2)
    expect(store.calls.withdraw).toBe(1)
  })

  test('fails a tryAcquire as an outage', async () => {
    const { clock, store, locks } = harness()
    store.next('attempt', slow(0, 1_000))
    const tried = watch(locks.lock('a').tryAcquire({ ttlMs: 900, retry: { attempts: 1 } }))
    await clock.advance(1_000)
    expect(codeOf(tried.error)).toBe('LOCK_UNAVAILABLE')
    expect(store.holder('a')).toBeUndefined()
  })

  test('again and again is an outage after storeTimeoutMs, not an endless series', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 3_000 } })
    store.always('attempt', slow(0, 100))
    const acquired = watch(locks.lock('a').acquire({ ttlMs: 50, waitMs: 600_000 }))
    await clock.advance(20_000)
    expect(codeOf(acquired.error)).toBe('LOCK_UNAVAILABLE')
  })

  test('the shortest ttl that core accepts can be held', async () => {
    const { clock, locks } = harness({ store: { capabilities: { minTtlMs: 1 } } })
    const acquired = watch(locks.lock('a').acquire({ ttlMs: 1, renew: false }))
    await clock.advance(0)
    const refused = codeOf(acquired.error) === 'LOCK_INVALID_ARGUMENT'
    expect(refused || acquired.state === 'fulfilled').toBe(true)
  })
})
