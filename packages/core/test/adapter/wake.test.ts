import { describe, expect, test } from 'vitest'
import { orAfter, Wake } from '../../src/adapter/time.ts'
import { reasonOf, watch } from '../support/harness.ts'
import { settled, VirtualClock } from '../support/virtual-clock.ts'

function setUp(): { clock: VirtualClock; wake: Wake } {
  const clock = new VirtualClock()
  return { clock, wake: new Wake(clock) }
}

describe('a sleep', () => {
  test('ends when it is woken', async () => {
    const { clock, wake } = setUp()
    const sleep = wake.sleep(100)
    expect(wake.sleeping).toBe(true)
    wake.wake()
    expect(await sleep).toBe('woken')
    expect(wake.sleeping).toBe(false)
    expect(clock.armed).toBe(0)
  })

  test('ends when its time is over, and not before', async () => {
    const { clock, wake } = setUp()
    const sleep = watch(wake.sleep(100))
    await clock.advance(99)
    expect(sleep.state).toBe('pending')
    await clock.advance(1)
    expect(sleep.value).toBe('timeout')
  })

  test('ends when the signal aborts, also when it did so before', async () => {
    const { clock, wake } = setUp()
    const abort = new AbortController()
    const sleep = wake.sleep(100, { signal: abort.signal })
    abort.abort()
    expect(await sleep).toBe('aborted')
    expect(await wake.sleep(100, { signal: abort.signal })).toBe('aborted')
    expect(clock.armed).toBe(0)
  })

  test('goes on when the time that was asked for is taken back', async () => {
    const { clock, wake } = setUp()
    const sleep = watch(wake.sleep(100))
    wake.wakeBy(clock.now() + 20)
    wake.sleepOn()
    await clock.advance(99)
    expect(sleep.state).toBe('pending')
    await clock.advance(1)
    expect(sleep.value).toBe('timeout')
  })

  test('ends at the earliest time that was asked for meanwhile', async () => {
    const { clock, wake } = setUp()
    const sleep = watch(wake.sleep(100))
    wake.wakeBy(clock.now() + 20)
    wake.wakeBy(clock.now() + 50)
    await clock.advance(19)
    expect(sleep.state).toBe('pending')
    await clock.advance(1)
    expect(sleep.value).toBe('due')
  })

  test('is not put off by a time after its own end', async () => {
    const { clock, wake } = setUp()
    const sleep = watch(wake.sleep(100))
    wake.wakeBy(clock.now() + 200)
    await clock.advance(100)
    expect(sleep.value).toBe('timeout')
  })

  test('a wake-up while nothing slept ends the next sleep, once', async () => {
    const { clock, wake } = setUp()
    wake.wake()
    expect(await wake.sleep(100)).toBe('woken')
    wake.wakeBy(clock.now() - 1)
    expect(await wake.sleep(100)).toBe('due')
    const third = watch(wake.sleep(100))
    await settled()
    expect(third.state).toBe('pending')
  })

  test('does not see what was cleared', async () => {
    const { clock, wake } = setUp()
    wake.wake()
    wake.wakeBy(clock.now())
    wake.clear()
    const sleep = watch(wake.sleep(100))
    await settled()
    expect(sleep.state).toBe('pending')
  })

  test('makes way for the next', async () => {
    const { clock, wake } = setUp()
    const first = watch(wake.sleep(100))
    const second = watch(wake.sleep(200))
    await clock.advance(150)
    expect([first.value, second.state]).toEqual(['woken', 'pending'])
  })

  test.each([true, false])('keeps the process alive where asked to: %s', (keepAlive) => {
    const { clock, wake } = setUp()
    void wake.sleep(100, { keepAlive })
    wake.wakeBy(clock.now() + 50)
    expect(clock.keepsAlive).toBe(keepAlive)
  })
})

describe('work with a time limit', () => {
  test('gives its outcome in time', async () => {
    const { clock } = setUp()
    expect(await orAfter(clock, 100, Promise.resolve(7))).toBe(7)
    expect(await reasonOf(orAfter(clock, 100, Promise.reject(new Error('no'))))).toEqual(new Error('no'))
    expect(clock.armed).toBe(0)
  })

  test('gives nothing after its time or an abort', async () => {
    const { clock } = setUp()
    const abort = new AbortController()
    const forever = new Promise<number>(() => undefined)
    const late = watch(orAfter(clock, 100, forever))
    const aborted = watch(orAfter(clock, 100, forever, { signal: abort.signal }))
    abort.abort()
    await settled()
    expect([late.state, aborted.state]).toEqual(['pending', 'fulfilled'])
    await clock.advance(100)
    expect([late.state, late.value]).toEqual(['fulfilled', undefined])
  })
})
