/** As far as it is needed here. */
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
 * For adapters that work on a client of the user's: calls `call` on the event, until what is returned is called.
 * However many share the client, it has one listener more: Node warns of a leak beyond ten.
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
