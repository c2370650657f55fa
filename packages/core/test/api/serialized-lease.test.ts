import { describe, expect, test } from 'vitest'
import { readHandover, writeHandover } from '../../src/api/serialized-lease.ts'
import { createLocks } from '../../src/index.ts'
import { fc } from '../support/fast-check.ts'
import { callUntyped, codeOf, harness, reasonOf, thrownCode, watch } from '../support/harness.ts'
import { gate, hang, loseReply, slow } from '../support/steps.ts'
import { settled } from '../support/virtual-clock.ts'

describe('serialize and resume', () => {
  test('continue one hold: same fence and owner, a fresh ttl, renewed alike', async () => {
    const { clock, store, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900, owner: 'job 1' })
    const text = lease.serialize()
    expect(lease.state).toBe('released')
    expect(store.calls.release).toBe(0)
    const other = createLocks(store.factory, { clock })
    await clock.advance(500)
    expect(store.calls.renew).toBe(0)
    const resumed = await other.resume(text)
    expect([resumed.fence, resumed.owner, resumed.remainingMs]).toEqual([lease.fence, 'job 1', 889])
    await clock.advance(900)
    expect(resumed.state).toBe('held')
    await resumed.release()
    expect(store.holder('a')).toBeUndefined()
  })

  test('the old lease is over: release and dispose do not touch the successor', async () => {
    const { store, locks } = harness()
    const lease = await locks.lock('a').acquire()
    const resumed = await locks.resume(lease.serialize())
    expect(codeOf(await reasonOf(lease.release()))).toBe('LOCK_NOT_OWNED')
    await lease[Symbol.asyncDispose]()
    expect(thrownCode(() => lease.serialize())).toBe('LOCK_NOT_OWNED')
    expect(store.calls.release).toBe(0)
    resumed.assertHeld()
  })

  test('a lease that was handed out with a short claim is there for its whole ttl', async () => {
    const { store, locks } = harness({ store: { grantTtlMs: 300 } })
    const [lease, fixed] = [
      await locks.lock('a').acquire({ ttlMs: 900 }),
      await locks.lock('b').acquire({ ttlMs: 900, renew: false }),
    ]
    for (const one of [lease, fixed]) one.serialize()
    expect(store.renewals.flat().map(({ grant, ttlMs }) => [grant.name, ttlMs])).toEqual([
      ['a', 900],
      ['b', 900],
    ])
  })

  test('one successor only', async () => {
    const { locks } = harness()
    const text = (await locks.lock('a').acquire()).serialize()
    const outcomes = await Promise.allSettled([locks.resume(text), locks.resume(text)])
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  })

  test('after the ttl it is over', async () => {
    const { clock, locks } = harness()
    const text = (await locks.lock('a').acquire({ ttlMs: 900 })).serialize()
    await clock.advance(900)
    expect(codeOf(await reasonOf(locks.resume(text)))).toBe('LOCK_LOST')
  })

  test('a re-entered hold is not handed over', async () => {
    const { locks } = harness()
    const lease = await locks.lock('a').acquire({ owner: 'me' })
    await locks.lock('a').acquire({ owner: 'me' })
    expect(thrownCode(() => lease.serialize())).toBe('LOCK_UNSUPPORTED')
    expect(lease.state).toBe('held')
  })

  test('a lost lease is not handed over', async () => {
    const { clock, locks } = harness()
    const lease = await locks.lock('a').acquire({ ttlMs: 900 })
    clock.block(900)
    expect(thrownCode(() => lease.serialize())).toBe('LOCK_LOST')
  })

  test('a lost reply of the adoption costs nothing', async () => {
    const { clock, store, locks } = harness()
    const text = (await locks.lock('a').acquire()).serialize()
    store.next('adopt', loseReply())
    const resumed = watch(locks.resume(text))
    await clock.advance(1_000)
    expect(resumed.value?.state).toBe('held')
  })

  test('an adoption of unknown outcome leaves nothing behind', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 500 } })
    const text = (await locks.lock('a').acquire()).serialize()
    store.always('adopt', loseReply())
    const resumed = watch(locks.resume(text))
    await clock.advance(1_500)
    expect(codeOf(resumed.error)).toBe('LOCK_UNAVAILABLE')
    expect(store.holder('a')).toBeUndefined()
  })

  test('an adoption slower than its ttl is not returned as held', async () => {
    const { clock, store, locks } = harness()
    const text = (await locks.lock('a').acquire({ ttlMs: 900, renew: false })).serialize()
    store.next('adopt', slow(0, 2_000))
    const resumed = watch(locks.resume(text, { renew: false }))
    await clock.advance(2_000)
    expect(resumed.state).toBe('rejected')
    expect(codeOf(resumed.error)).toBe('LOCK_LOST')
  })

  test('an adoption that is answered after close is withdrawn, not renewed forever', async () => {
    const { clock, store, locks } = harness()
    const text = (await locks.lock('a').acquire({ ttlMs: 900 })).serialize()
    store.next('adopt', slow(0, 100))
    const resumed = watch(locks.resume(text))
    const closed = watch(locks.close())
    await clock.advance(5_000)
    expect(closed.state).toBe('fulfilled')
    expect(codeOf(resumed.error)).toBe('LOCK_CLOSED')
    expect(store.holder('a')).toBeUndefined()
  })

  test('a local waiter of the same name keeps its place and is served after the resumed lease', async () => {
    const { clock, store, locks } = harness()
    const text = (await locks.lock('a').acquire()).serialize()
    const waiter = watch(locks.lock('a').acquire())
    const later = watch(locks.lock('a').acquire())
    await clock.advance(10)
    const resumed = await locks.resume(text)
    await clock.advance(3_000)
    expect([waiter.state, later.state]).toEqual(['pending', 'pending'])
    await resumed.release()
    await clock.advance(2_000)
    expect([waiter.state, later.state]).toEqual(['fulfilled', 'pending'])
    const { attempt } = store.calls
    await clock.advance(2_000)
    expect(store.calls.attempt, 'only the head contends, and the holder is local').toBe(attempt)
    await waiter.value?.release()
    await clock.advance(2_000)
    expect(later.state).toBe('fulfilled')
  })

  test('an adoption that reaches the store after it was given up leaves nothing behind', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 300 } })
    const text = (await locks.lock('a').acquire()).serialize()
    const { step, open } = gate()
    store.next('adopt', step)
    const resumed = watch(locks.resume(text))
    await clock.advance(300)
    expect(codeOf(resumed.error)).toBe('LOCK_UNAVAILABLE')
    open()
    await clock.advance(0)
    expect(store.calls.adopt).toBe(1)
    expect(store.holder('a')).toBeUndefined()
  })

  test('a hung store ends the resume within storeTimeoutMs', async () => {
    const { clock, store, locks } = harness({ locks: { storeTimeoutMs: 300 } })
    const text = (await locks.lock('a').acquire()).serialize()
    store.always('adopt', hang)
    const resumed = watch(locks.resume(text))
    await clock.advance(300)
    await settled()
    expect(codeOf(resumed.error)).toBe('LOCK_UNAVAILABLE')
  })
})

test.each([{ signal: new AbortController().signal }, { waitMs: 5 }, { ttlMs: 100 }, { owner: 'me' }, 5])(
  'resume refuses options that are not its own, before the store is touched: %j',
  async (options) => {
    const { store, locks } = harness()
    const text = (await locks.lock('a').acquire()).serialize()
    expect(codeOf(await reasonOf(callUntyped(locks, 'resume', text, options)))).toBe('LOCK_INVALID_ARGUMENT')
    expect([store.calls.adopt, store.calls.withdraw]).toEqual([0, 0])
  },
)

describe('the text of a lease', () => {
  const uuid = '0123abcd-0000-4000-8000-0123456789ab'
  const attemptId = `${uuid}:17`
  const fields = { name: 'a', attemptId, owner: 'o', fence: 7n, ttlMs: 900, lockDelayMs: 0 }

  test('reads back what was written, any name and fence', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', minLength: 1 }),
        fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }),
        (name, fence) => {
          const lease = { ...fields, name, fence }
          expect(readHandover(writeHandover(lease))).toEqual(lease)
          const kept = { ...lease, minHoldMs: 5 }
          expect(readHandover(writeHandover(kept))).toEqual(kept)
        },
      ),
    )
  })

  test('anything else is refused before the store is touched', async () => {
    const text = (change: object): string =>
      Buffer.from(JSON.stringify({ v: 1, ...fields, fence: '7', ...change })).toString('base64url')
    const { locks, store } = harness()
    const bad: unknown[] = [
      ...['', 'x', '%%%', 'bnVsbA', 'W10', undefined, null, 5, {}, Buffer.from('null').toString('base64url')],
      ...[
        { v: 2 },
        { name: 5 },
        { name: '' },
        { name: 'x'.repeat(2_000) },
        { name: '\ud800' },
        { owner: '' },
      ].map(text),
      ...[{ fence: 7 }, { fence: '-1' }, { fence: '1e3' }, { ttlMs: 0 }, { ttlMs: '9' }, { ttlMs: 1.5 }].map(
        text,
      ),
      ...[{ fence: '0' }, { fence: '07' }, { fence: String(2n ** 63n) }, { extra: 1 }].map(text),
      ...[-1, 0.5, '0', 2 ** 31].map((minHoldMs) => text({ minHoldMs })),
      ...[-1, 0.5, '0', 3_600_001].map((lockDelayMs) => text({ lockDelayMs })),
      ...[5, '', 'hold', 'x'.repeat(10_000), uuid, `${uuid}:`, `${uuid}:x`, `${uuid}:01`, `${uuid}:-1`].map(
        (id) => text({ attemptId: id }),
      ),
      ...[`${attemptId} `, `${attemptId}\n`, `${uuid}:${2n ** 63n}`, uuid.toUpperCase() + ':1', 'c:1'].map(
        (id) => text({ attemptId: id }),
      ),
      ...[`${text({})}=`, ` ${text({})}`, `${text({})}%`, text({ name: 'x'.repeat(1_000_000) })],
    ]
    for (const value of bad)
      expect(codeOf(await reasonOf(callUntyped(locks, 'resume', value))), String(value)).toBe(
        'LOCK_INVALID_ARGUMENT',
      )
    expect(store.totalCalls).toBe(0)
    expect(codeOf(await reasonOf(locks.resume(text({}))))).toBe('LOCK_LOST')
  })
})
