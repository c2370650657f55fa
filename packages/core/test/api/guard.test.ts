import { describe, expect, test } from 'vitest'
import { memoryGuard } from '../../src/index.ts'
import { callUntyped, codeOf, reasonOf, watch } from '../support/harness.ts'
import { gate, noClock } from '../support/steps.ts'
import { settled } from '../support/virtual-clock.ts'

describe('the guard of a resource in memory', () => {
  test('lets a fence pass until a higher one was seen, and the same one again', async () => {
    const guard = memoryGuard()
    expect(await guard.run(5n, () => 'a')).toBe('a')
    expect(await guard.run(5n, async () => 'b')).toBe('b')
    await guard.register(6n)
    let ran = false
    expect(codeOf(await reasonOf(guard.run(5n, () => (ran = true))))).toBe('LOCK_LOST')
    expect(ran).toBe(false)
    expect(codeOf(await reasonOf(guard.register(5n)))).toBe('LOCK_LOST')
  })

  test('runs one at a time, and goes on after one that failed', async () => {
    const guard = memoryGuard()
    const order: string[] = []
    const first = guard.run(1n, async () => {
      order.push('first in')
      await settled()
      order.push('first out')
      throw new Error('first')
    })
    const second = guard.run(2n, () => order.push('second'))
    expect(await reasonOf(first)).toMatchObject({ message: 'first' })
    await second
    expect(order).toEqual(['first in', 'first out', 'second'])
  })

  test('checks a fence when its turn comes, not when it was asked', async () => {
    const guard = memoryGuard()
    const { step, open } = gate()
    const slow = watch(guard.run(1n, () => step(() => 'written', noClock)))
    const stale = watch(guard.run(1n, () => 'stale'))
    await settled()
    const registered = guard.register(2n)
    open()
    await registered
    await settled()
    expect([slow.state, codeOf(stale.error)]).toEqual(['fulfilled', 'LOCK_LOST'])
  })

  test('a registration is confirmed only when nothing older is still writing', async () => {
    const guard = memoryGuard()
    const { step, open } = gate()
    const writing = watch(guard.run(1n, () => step(() => 'written', noClock)))
    await settled()
    const registered = watch(guard.register(2n))
    await settled()
    expect(registered.state).toBe('pending')
    open()
    await settled()
    expect([writing.value, registered.state]).toEqual(['written', 'fulfilled'])
  })

  test('refuses what is no fence, and is not opened by it', async () => {
    const guard = memoryGuard()
    await guard.register(9n)
    for (const fence of [undefined, null, NaN, 10, '10', {}]) {
      expect(codeOf(await reasonOf(callUntyped(guard, 'register', fence)))).toBe('LOCK_INVALID_ARGUMENT')
      expect(codeOf(await reasonOf(callUntyped(guard, 'run', fence, () => 1)))).toBe('LOCK_INVALID_ARGUMENT')
    }
    expect(codeOf(await reasonOf(guard.register(8n)))).toBe('LOCK_LOST')
  })
})
