/** How many keys a process remembers. The others are found by looking through the directory. */
const MOST = 10_000

/** A key that may be dropped if it is still at that version. */
export interface Idle {
  readonly folder: string
  readonly version: bigint
}

/**
 * Keys that this process put last, with an idle time, and where the folder has nothing of earlier versions. Once idle
 * they can be dropped at once: looking for them in the directory takes several times as many calls.
 */
export class Released {
  readonly #keys = new Map<string, Idle & { readonly idleAt: number }>()
  /** Versions that this process put without an idle time. */
  readonly #inUse = new Map<string, bigint>()

  /** Without an idle time the key is in use. */
  note(folder: string, version: bigint, idleMs = 0): void {
    this.#keys.delete(folder)
    this.#inUse.delete(folder)
    if (idleMs === 0) return this.#use(folder, version)
    if (this.#keys.size >= MOST) return
    this.#keys.set(folder, { folder, version, idleAt: performance.now() + idleMs })
  }

  /** Whether this process put that version last, without an idle time. */
  uses(folder: string, version: bigint): boolean {
    return this.#inUse.get(folder) === version
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
  #use(folder: string, version: bigint): void {
    this.#inUse.set(folder, version)
    const [oldest] = this.#inUse.keys()
    if (this.#inUse.size > MOST && oldest !== undefined) this.#inUse.delete(oldest)
  }
}
