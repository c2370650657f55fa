import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { AbortListeners } from '../../src/engine/abort-listeners.ts'
import { harness, watch } from '../support/harness.ts'
import { settled } from '../support/virtual-clock.ts'

describe('a signal shared by many', () => {
  test('clients has one listener too', async () => {
    const controller = new AbortController()
    const { signal } = controller
    const beds = Array.from({ length: 12 }, () => harness())
    const waits = beds.map(({ store, locks }) => {
      store.seize('a')
      return watch(locks.lock('a').acquire({ signal }))
    })
    await settled()
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    controller.abort('enough')
    await settled()
    expect(waits.map(({ error }) => error)).toEqual(Array(12).fill('enough'))
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })

  test('has one listener, which goes with the last of them', () => {
    const { signal } = new AbortController()
    const listeners = new AbortListeners()
    const calls = Array.from({ length: 50 }, () => () => undefined)
    for (const call of calls) listeners.add(signal, call)
    expect(getEventListeners(signal, 'abort')).toHaveLength(1)
    for (const call of calls) listeners.remove(signal, call)
    expect(getEventListeners(signal, 'abort')).toHaveLength(0)
  })

  test('calls every listener that is still there when it aborts', () => {
    const controller = new AbortController()
    const listeners = new AbortListeners()
    const called: string[] = []
    const left = (): void => void called.push('left')
    listeners.add(controller.signal, left)
    listeners.add(controller.signal, () => called.push('first'))
    listeners.add(controller.signal, () => called.push('second'))
    listeners.remove(controller.signal, left)
    controller.abort()
    expect(called).toEqual(['first', 'second'])
  })
})
