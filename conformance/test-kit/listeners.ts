import type { EventEmitter } from 'node:events'
import { onTestFinished } from 'vitest'

/** How many listeners there are, by event. */
export function listenersOf(emitter: Pick<EventEmitter, 'eventNames' | 'listenerCount'>): object {
  return Object.fromEntries(
    emitter.eventNames().map((event) => [String(event), emitter.listenerCount(event)]),
  )
}

/** What Node warns of until the test ends, as far as it is about too many listeners. */
export function leakWarnings(): readonly string[] {
  const found: string[] = []
  const onWarning = (warning: Error): void => {
    if (warning.name === 'MaxListenersExceededWarning') found.push(warning.message)
  }
  process.on('warning', onWarning)
  onTestFinished(() => void process.off('warning', onWarning))
  return found
}
