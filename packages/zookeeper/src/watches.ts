import { code, isRequestError } from './errors.ts'
import type { Wire } from './wire.ts'

interface Watch {
  readonly fired: () => void
  /** Resolves with whether the node existed, and so is watched. */
  readonly set: Promise<boolean>
  readonly listeners: Set<() => void>
}

/**
 * One watch per node however many wait for it, and however often: a watch cannot be taken back, so
 * whoever waits again for the same predecessor must find the one that is there.
 */
export class Watches {
  readonly #wire: Wire
  readonly #watches = new Map<string, Watch>()

  constructor(wire: Wire) {
    this.#wire = wire
  }

  /** Calls `listener` once the node changes or vanishes. False when it does not exist. */
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
   * Takes all of them back; whoever waits has to ask again. The library would ask for all in one request
   * once it is connected again, and a server hangs up on one of more than a megabyte.
   */
  clear(): void {
    for (const [path, { fired }] of this.#watches) this.#wire.unwatch(path, fired)
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
    try {
      await this.#wire.data(path, fired)
      return true
    } catch (error) {
      end()
      if (isRequestError(error, code.noNode)) return false
      throw error
    }
  }
}
