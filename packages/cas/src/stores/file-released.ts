/** How many keys a process remembers. The others are found by looking through the directory. */
const MOST = 10_000

/** A key that may be dropped if it is still at that version. */
export interface Idle {
  readonly folder: string
  readonly version: bigint
}

/**
 * Keys that this process put last, with an idle time, and where nothing else is in the folder. Once idle they can be
 * dropped at once: looking for them in the directory takes several times as many calls.
 */
export class Released {
  readonly #keys = new Map<string, Idle & { readonly idleAt: number }>()

  /** Without an idle time the key is in use again. */
  note(folder: string, version: bigint, idleMs = 0): void {
    this.#keys.delete(folder)
    if (idleMs === 0 || this.#keys.size >= MOST) return
    this.#keys.set(folder, { folder, version, idleAt: performance.now() + idleMs })
  }

  has(folder: string): boolean {
    return this.#keys.has(folder)
  }

  /** Takes out those that are idle by now. */
  takeIdle(): readonly Idle[] {
    const now = performance.now()
    const idle = [...this.#keys.values()].filter(({ idleAt }) => idleAt <= now)
    for (const { folder } of idle) this.#keys.delete(folder)
    return idle
  }
}
