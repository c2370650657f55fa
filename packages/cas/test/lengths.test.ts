import { memoryStore } from '@locks/cas'
import { describe, expect, test } from 'vitest'
import { HandClock } from '../../../conformance/test-support/hand-clock.ts'
import { bare, isBusy } from './support/bed.ts'

describe('the length of a hold', () => {
  test('is what renewals ask for again once a longer promise is over', async () => {
    const [store, clock] = [memoryStore(), new HandClock()]
    const [holder, other] = [bare(store, clock), bare(store, clock)]
    const grant = await holder.take(holder.request({ ttlMs: 1_000 }))
    await holder.adapter.renew([{ grant, ttlMs: 8_000, lockDelayMs: 0 }])
    for (let beat = 0; beat < 27; beat += 1) {
      expect(await holder.adapter.renew([{ grant, ttlMs: 1_000, lockDelayMs: 0 }])).toEqual(['renewed'])
      clock.move(333)
    }
    await holder.adapter.renew([{ grant, ttlMs: 1_000, lockDelayMs: 0 }])
    const wanted = other.request()
    expect(await isBusy(other, wanted)).toBe(true)
    clock.move(999)
    expect(await isBusy(other, wanted)).toBe(true)
    clock.move(1)
    await other.take(wanted)
  })

  test.each([1, 100, 4_000, 7_000])(
    'a shorter renewal %i ms after a long one ends nothing early',
    async (afterMs) => {
      const [store, clock, watching] = [memoryStore(), new HandClock(), new HandClock()]
      const [holder, other] = [bare(store, clock), bare(store, watching)]
      const grant = await holder.take(holder.request({ ttlMs: 8_000 }))
      for (const move of [afterMs, 500]) {
        clock.move(move)
        await holder.adapter.renew([{ grant, ttlMs: 1_000, lockDelayMs: 0 }])
      }
      const wanted = other.request()
      expect(await isBusy(other, wanted)).toBe(true)
      const remainingMs = Math.max(1_000, 8_000 - afterMs - 500)
      watching.move(remainingMs - 1)
      expect(await isBusy(other, wanted)).toBe(true)
      watching.move(1)
      await other.take(wanted)
    },
  )

  test('and its lock-delay shrink together, and never below what stands', async () => {
    const [store, clock, watching] = [memoryStore(), new HandClock(), new HandClock()]
    const [holder, other] = [bare(store, clock), bare(store, watching)]
    const grant = await holder.take(holder.request({ ttlMs: 2_000, lockDelayMs: 3_000 }))
    clock.move(500)
    await holder.adapter.renew([{ grant, ttlMs: 1_000, lockDelayMs: 100 }])
    const blockedMs = async (): Promise<number | undefined> =>
      (await bare(store, watching).adapter.inspect('order')).remainingMs
    expect(await blockedMs()).toBe(4_500)
    for (let beat = 0; beat < 10; beat += 1) {
      clock.move(500)
      await holder.adapter.renew([{ grant, ttlMs: 1_000, lockDelayMs: 100 }])
    }
    expect(await blockedMs()).toBe(1_100)
    expect(await isBusy(other, other.request())).toBe(true)
  })

  test('that a successor adopts is not cut short, and follows its own renewals later', async () => {
    const [store, clock] = [memoryStore(), new HandClock()]
    const [first, second] = [bare(store, clock), bare(store, clock)]
    const grant = await first.take(first.request({ ttlMs: 8_000 }))
    clock.move(1_000)
    const request = second.request({ ttlMs: 1_000 })
    const adopted = await second.adapter.adopt?.(grant, request)
    if (adopted === undefined || adopted === 'lost') throw new Error('not adopted')
    const remaining = async (): Promise<number | undefined> =>
      (await bare(store, clock).adapter.inspect('order')).remainingMs
    expect(await remaining()).toBeGreaterThanOrEqual(7_000)
    for (let beat = 0; beat < 18; beat += 1) {
      clock.move(500)
      await second.adapter.renew([{ grant: adopted, ttlMs: 1_000, lockDelayMs: 0 }])
    }
    expect(await remaining()).toBe(1_000)
  })
})
