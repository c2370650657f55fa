import { describe, expect, test } from 'vitest'
import { graceMs, onSilence, Patience, PAUSE_MS, wasPaused } from '../../src/adapter/time.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

describe('patience', () => {
  test('a timer that runs late by a pause shows one', () => {
    expect(wasPaused(100, 100 + PAUSE_MS - 1)).toBe(false)
    expect(wasPaused(100, 100 + PAUSE_MS)).toBe(true)
    expect(wasPaused(100, 150, 50)).toBe(true)
  })

  test('a pause is forgiven once, and lateness alone is not', () => {
    const patience = new Patience()
    expect(patience.forgives(0, PAUSE_MS - 1)).toBe(false)
    expect(patience.forgives(0, PAUSE_MS)).toBe(true)
    expect(patience.forgives(PAUSE_MS, 3 * PAUSE_MS)).toBe(false)
  })

  test('the grace is never longer than the time-out itself', () => {
    expect(graceMs(5_000)).toBe(PAUSE_MS)
    expect(graceMs(300)).toBe(300)
  })
})

describe('silence', () => {
  function setUp(): { clock: VirtualClock; given: number[]; cancel: () => void } {
    const clock = new VirtualClock()
    const given: number[] = []
    const start = clock.now()
    const { cancel } = onSilence(clock, 5_000, () => given.push(clock.now() - start))
    return { clock, given, cancel }
  }

  test('ends at its time', async () => {
    const { clock, given } = setUp()
    await clock.advance(10_000)
    expect(given).toEqual([5_000])
  })

  test('gets a grace after a pause of the process', async () => {
    const { clock, given } = setUp()
    clock.block(20_000)
    await clock.advance(PAUSE_MS - 1)
    expect(given).toEqual([])
    await clock.advance(1)
    expect(given).toEqual([20_000 + PAUSE_MS])
  })

  test.each([0, 20_000])('does not end once it is broken, after a pause of %s ms', async (pauseMs) => {
    const { clock, given, cancel } = setUp()
    clock.block(pauseMs)
    await clock.advance(0)
    cancel()
    await clock.advance(10_000)
    expect(given).toEqual([])
  })
})
