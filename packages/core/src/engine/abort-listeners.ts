/**
 * One listener per signal, however many acquires and clients share it: a program passes its shutdown signal to all of
 * them, and Node warns of a leak above ten listeners.
 */
export class AbortListeners {
  readonly #bySignal = new Map<
    AbortSignal,
    { readonly calls: Set<() => void>; readonly listener: () => void }
  >()

  add(signal: AbortSignal, call: () => void): void {
    let entry = this.#bySignal.get(signal)
    if (entry === undefined) {
      const calls = new Set<() => void>()
      const listener = (): void => {
        for (const each of calls) each()
      }
      this.#bySignal.set(signal, (entry = { calls, listener }))
      signal.addEventListener('abort', listener)
    }
    entry.calls.add(call)
  }

  remove(signal: AbortSignal, call: () => void): void {
    const entry = this.#bySignal.get(signal)
    if (entry === undefined || !entry.calls.delete(call) || entry.calls.size > 0) return
    this.#bySignal.delete(signal)
    signal.removeEventListener('abort', entry.listener)
  }
}

/** The listeners of this process. */
export const abortListeners: AbortListeners = new AbortListeners()
