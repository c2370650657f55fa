import { code, isRequestError } from './errors.ts'
import type { Wire } from './wire.ts'

export type Chore = (wire: Wire) => Promise<unknown>

/** What has to be done before the session may forget it: kept until it succeeds or the session is over. */
export class Chores {
  /** Told that there is something to run. */
  added: () => void = () => undefined
  /** Told that nothing is left. */
  drained: () => void = () => undefined
  readonly #open = new Map<string, Chore>()
  readonly #running = new Set<string>()

  get pending(): boolean {
    return this.#open.size > 0
  }

  add(key: string, chore: Chore): void {
    this.#open.set(key, chore)
    this.added()
  }

  /** Tries everything that is open once more. */
  run(wire: Wire): void {
    for (const [key, chore] of this.#open) if (!this.#running.has(key)) void this.#try(key, chore, wire)
  }

  async #try(key: string, chore: Chore, wire: Wire): Promise<void> {
    this.#running.add(key)
    try {
      await chore(wire)
      this.#done(key, chore)
    } catch (error) {
      // Tried again on the next run: a lost connection comes back, or the session ends.
      if (!isRequestError(error)) this.#done(key, chore)
    } finally {
      this.#running.delete(key)
    }
  }

  #done(key: string, chore: Chore): void {
    if (this.#open.get(key) === chore) this.#open.delete(key)
    if (this.#open.size === 0) this.drained()
  }
}

/** Whether it was there. */
export async function removeIfThere(wire: Wire, path: string): Promise<boolean> {
  try {
    await wire.remove(path)
    return true
  } catch (error) {
    if (isRequestError(error, code.noNode)) return false
    throw error
  }
}
