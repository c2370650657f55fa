import type { Requests } from './requests.ts'

interface Watch {
  readonly fired: () => void
  /** Whether the node existed, and so is watched. */
  readonly set: Promise<boolean>
  readonly listeners: Set<() => void>
}

/** One watch per node for any number of waits: a watch cannot be cancelled, so a repeated wait shares it. */
export class Watches {
  readonly #requests: Requests
  readonly #watches = new Map<string, Watch>()

  constructor(requests: Requests) {
    this.#requests = requests
  }

  /** Calls `listener` once the node changes or vanishes. Returns false when it does not exist. */
  async on(path: string, listener: () => void): Promise<boolean> {
    let watch = this.#watches.get(path)
    if (watch === undefined) this.#watches.set(path, (watch = this.#begin(path)))
    watch.listeners.add(listener)
    return watch.set
  }

  off(path: string, listener: () => void): void {
    this.#watches.get(path)?.listeners.delete(listener)
  }

  /**
   * Forgets all watches; waits must ask again. After a reconnection the library would set all of them in one request,
   * and a server closes the connection on a request of more than a megabyte.
   */
  clear(): void {
    for (const [path, { fired }] of this.#watches) this.#requests.unwatch(path, fired)
    this.#watches.clear()
  }

  #begin(path: string): Watch {
    const end = (): void => {
      if (this.#watches.get(path) === watch) this.#watches.delete(path)
    }
    const fired = (): void => {
      end()
      for (const listener of watch.listeners) listener()
    }
    const watch: Watch = { fired, set: this.#set(path, fired, end), listeners: new Set() }
    return watch
  }

  async #set(path: string, fired: () => void, end: () => void): Promise<boolean> {
    let there = false
    try {
      there = (await this.#requests.data(path, fired)) !== undefined
    } finally {
      if (!there) end()
    }
    return there
  }
}
