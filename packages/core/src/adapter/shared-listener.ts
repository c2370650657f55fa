/** The part of an event emitter that is used here. */
export interface Emitter {
  on(event: string, listener: () => void): unknown
  off(event: string, listener: () => void): unknown
}

interface Entry {
  readonly calls: Set<() => void>
  readonly listener: () => void
}

const byEmitter = new WeakMap<Emitter, Map<string, Entry>>()

/**
 * For adapters that use a client of the program: calls `call` on each event, until the returned function is called. All
 * adapters share one listener on that client, since Node warns of a leak above ten.
 */
export function shareListener(emitter: Emitter, event: string, call: () => void): () => void {
  const byEvent = byEmitter.get(emitter) ?? new Map<string, Entry>()
  byEmitter.set(emitter, byEvent)
  const entry = byEvent.get(event) ?? listen(emitter, event)
  byEvent.set(event, entry)
  entry.calls.add(call)
  return () => {
    if (!entry.calls.delete(call) || entry.calls.size > 0) return
    byEvent.delete(event)
    emitter.off(event, entry.listener)
  }
}

function listen(emitter: Emitter, event: string): Entry {
  const calls = new Set<() => void>()
  const listener = (): void => {
    for (const call of [...calls]) call()
  }
  emitter.on(event, listener)
  return { calls, listener }
}
