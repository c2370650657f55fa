import type { Locks } from '@locks/core'
import { randomUUID } from 'node:crypto'
import type { EventEmitter } from 'node:events'
import { expect, onTestFinished } from 'vitest'

type Emitter = Pick<EventEmitter, 'eventNames' | 'listenerCount'>

/** How many listeners there are, by event. */
export function listenersOf(emitter: Emitter): object {
  return Object.fromEntries(
    emitter.eventNames().map((event) => [String(event), emitter.listenerCount(event)]),
  )
}

/** What Node warns of until the test ends, as far as it is about too many listeners. */
function leakWarnings(): readonly string[] {
  const found: string[] = []
  const onWarning = (warning: Error): void => {
    if (warning.name === 'MaxListenersExceededWarning') found.push(warning.message)
  }
  process.on('warning', onWarning)
  onTestFinished(() => void process.off('warning', onWarning))
  return found
}

/** A dozen clients on the same connections of the user cause no warning, and leave them the listeners they had. */
export async function expectNoLeak(connections: readonly Emitter[], open: () => Locks): Promise<void> {
  const before = connections.map(listenersOf)
  const warnings = leakWarnings()
  const all = Array.from({ length: 12 }, open)
  const name = randomUUID()
  await Promise.all(all.map((locks) => locks.with(name, { waitMs: 60_000 }, () => undefined)))
  expect(warnings).toEqual([])
  for (const locks of all) await locks.close()
  expect(connections.map(listenersOf)).toEqual(before)
}
