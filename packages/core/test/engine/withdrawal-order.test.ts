import { describe, expect, test } from 'vitest'
import { codeOf, harness, watch } from '../support/harness.ts'
import type { Harness, Watched } from '../support/harness.ts'
import { fail, gate, hang, swallow } from '../support/steps.ts'
import { settled } from '../support/virtual-clock.ts'

/** An acquire that is given up while its attempt is under way. */
async function givenUp({ locks }: Harness): Promise<Watched<unknown>> {
  const controller = new AbortController()
  const acquired = watch(locks.lock('a').acquire({ signal: controller.signal }))
  await settled()
  controller.abort()
  await settled()
  return acquired
}

describe('a withdrawal', () => {
  test('comes once, after the attempt that is under way, and no other acquire waits for that', async () => {
    const bed = harness()
    const { store, clock } = bed
    const { step, open } = gate()
    store.next('attempt', step)
    expect((await givenUp(bed)).state).toBe('rejected')
    await clock.advance(4_999)
    expect(store.log).toEqual(['attempt'])
    open()
    await settled()
    expect(store.log).toEqual(['attempt', 'withdraw'])
    expect(store.holder('a')).toBeUndefined()
    await clock.advance(60_000)
    expect(store.log).toEqual(['attempt', 'withdraw'])
  })

  test('comes after an attempt that fails, too', async () => {
    const bed = harness()
    let failIt = (): void => undefined
    const failing = new Promise<never>((_, reject) => (failIt = () => reject(new Error('reset'))))
    bed.store.next('attempt', () => failing)
    await givenUp(bed)
    await bed.clock.advance(1_000)
    expect(bed.store.log).toEqual(['attempt'])
    failIt()
    await settled()
    expect(bed.store.log).toEqual(['attempt', 'withdraw'])
  })

  test('overtakes an attempt that is silent for storeTimeoutMs, and comes again behind its answer', async () => {
    const bed = harness({ locks: { storeTimeoutMs: 300 } })
    const { store, clock } = bed
    const { step, open } = gate()
    store.next('attempt', step)
    await givenUp(bed)
    await clock.advance(299)
    expect(store.calls.withdraw).toBe(0)
    await clock.advance(1)
    expect(store.calls.withdraw).toBe(1)
    open()
    await settled()
    expect(store.calls.withdraw).toBe(2)
    expect(store.holder('a')).toBeUndefined()
  })

  test('insists, also behind a silent attempt', async () => {
    const bed = harness({ locks: { storeTimeoutMs: 300 } })
    bed.store.next('attempt', swallow)
    bed.store.next('withdraw', fail())
    await givenUp(bed)
    expect(bed.store.holder('a')).toBeDefined()
    await bed.clock.advance(600)
    expect(bed.store.holder('a')).toBeUndefined()
  })

  test('comes after an attempt although an earlier wait of its request fails meanwhile', async () => {
    let failWait = (): void => undefined
    const wait = (): Promise<never> =>
      new Promise((_, reject) => (failWait = () => reject(new Error('reset'))))
    const { store, clock, locks } = harness({ store: { wait, busy: { retryInMs: 100 } } })
    store.seize('a')
    const controller = new AbortController()
    void watch(locks.lock('a').acquire({ signal: controller.signal }))
    await settled()
    const { step, open } = gate()
    store.next('attempt', step)
    // The wait is overdue, so core asks again without its answer.
    await clock.advance(1_100)
    expect(store.log).toEqual(['attempt', 'wait', 'attempt'])
    controller.abort()
    failWait()
    await settled()
    expect(store.calls.withdraw).toBe(0)
    open()
    await settled()
    expect(store.log).toEqual(['attempt', 'wait', 'attempt', 'withdraw'])
  })

  test('keeps the next task of the client waiting until it is over', async () => {
    const bed = harness()
    const { store } = bed
    const { step, open } = gate()
    store.next('attempt', step)
    await givenUp(bed)
    const next = watch(bed.locks.lock('a').acquire())
    await settled()
    expect(store.log).toEqual(['attempt'])
    open()
    await settled()
    expect(next.state).toBe('fulfilled')
    expect(store.log).toEqual(['attempt', 'withdraw', 'attempt'])
  })

  test('comes after an adoption that is under way', async () => {
    const { store, clock, locks } = harness()
    const text = (await locks.lock('a').acquire({ ttlMs: 60_000 })).serialize()
    const { step, open } = gate()
    // The first try fails late, so that the second has just begun when the call gives up.
    store.next(
      'adopt',
      async () => {
        await new Promise<void>((resolve) => clock.timer(4_000, resolve))
        throw new Error('reset')
      },
      step,
    )
    const resumed = watch(locks.resume(text))
    await clock.advance(5_000)
    expect(codeOf(resumed.error)).toBe('LOCK_UNAVAILABLE')
    expect([store.calls.adopt, store.calls.withdraw]).toEqual([2, 0])
    open()
    await settled()
    expect(store.calls.withdraw).toBe(1)
    expect(store.holder('a')).toBeUndefined()
  })

  test('does not keep a client from closing although nothing is ever answered', async () => {
    const bed = harness({ locks: { storeTimeoutMs: 300 } })
    for (const method of ['attempt', 'withdraw'] as const) bed.store.always(method, hang)
    await givenUp(bed)
    const closed = watch(bed.locks.close())
    await bed.clock.advance(600)
    expect(closed.state).toBe('fulfilled')
    expect(bed.store.log).toEqual(['attempt', 'withdraw', 'close'])
  })
})
