import { describe, expect, test } from 'vitest'
import { codeOf, harness, lockErrorOf, watch } from '../support/harness.ts'
import { settled } from '../support/virtual-clock.ts'

/** What a program does that keeps payloads in an immutable state. */
function freezeDeep(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  for (const part of Object.values(value)) freezeDeep(part)
  Object.freeze(value)
}

describe('a holder that the program froze', () => {
  test('keeps no acquire of this client from being granted', async () => {
    const { clock, locks } = harness()
    locks.on('contended', freezeDeep)
    const first = await locks.lock('a').acquire()
    const granted = Promise.all([1, 2, 3].map(() => locks.with('a', ({ fence }) => fence)))
    await first.release()
    await clock.advance(0)
    expect(await granted).toEqual([2n, 3n, 4n])
  })

  test('keeps no later acquire from its LOCK_TIMEOUT, and the other deadlines of the client stand', async () => {
    const { clock, locks } = harness()
    await locks.lock('a').acquire()
    const fixed = await locks.lock('b').acquire({ ttlMs: 1_000, renew: false })
    const early = lockErrorOf(locks.lock('a').acquire({ waitMs: 100 }))
    const late = watch(locks.lock('a').acquire({ waitMs: 200 }))
    await clock.advance(100)
    freezeDeep((await early).holder)
    await clock.advance(100)
    expect(codeOf(late.error)).toBe('LOCK_TIMEOUT')
    await clock.advance(800)
    expect(fixed.signal.aborted).toBe(true)
  })
})

describe('a listener', () => {
  test('that subscribes again in its call is called once per event', async () => {
    const { locks } = harness()
    let calls = 0
    const again = (): void => {
      // Bounded, so that a failure is not an endless loop.
      if ((calls += 1) > 100) return
      off()
      off = locks.on('acquire', again)
    }
    let off = locks.on('acquire', again)
    await locks.lock('a').acquire()
    expect(calls).toBe(1)
    await locks.lock('b').acquire()
    expect(calls).toBe(2)
  })

  test('that is removed by an earlier one is not called', async () => {
    const { locks } = harness()
    let calls = 0
    locks.on('acquire', () => off())
    const off = locks.on('acquire', () => (calls += 1))
    await locks.lock('a').acquire()
    expect(calls).toBe(0)
  })

  test('of acquire in whose call the hold is lost leaves the name to the next in line', async () => {
    const { clock, store, locks } = harness()
    const off = locks.on('acquire', () => {
      off()
      store.free('a')
      store.host?.report('lost')
    })
    const [lost, next] = [watch(locks.lock('a').acquire()), watch(locks.lock('a').acquire())]
    await settled()
    expect(lost.value?.state).toBe('lost')
    await clock.advance(1_000)
    expect(next.value?.state).toBe('held')
  })
})
