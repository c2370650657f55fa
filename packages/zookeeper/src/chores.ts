import { code, isRequestError } from './errors.ts'
import type { Wire } from './wire.ts'

/** What has to be done before the session may forget it: kept until it succeeds or the session is over. */
export class Chores {
  readonly #wire: Wire
  readonly #added: () => void
  readonly #open = new Map<string, () => Promise<unknown>>()
  readonly #running = new Set<string>()

  /** `added` is told that there is something to run. */
  constructor(wire: Wire, added: () => void) {
    this.#wire = wire
    this.#added = added
  }

  get pending(): boolean {
    return this.#open.size > 0
  }

  /** Deletes a node of this session that nobody wants any more. */
  remove(path: string): void {
    this.add(path, () => removeIfThere(this.#wire, path))
  }

  add(key: string, chore: () => Promise<unknown>): void {
    this.#open.set(key, chore)
    this.#added()
  }

  /** Tries everything that is open once more. */
  run(): void {
    for (const [key, chore] of this.#open) if (!this.#running.has(key)) void this.#try(key, chore)
  }

  async #try(key: string, chore: () => Promise<unknown>): Promise<void> {
    this.#running.add(key)
    try {
      await chore()
      if (this.#open.get(key) === chore) this.#open.delete(key)
    } catch (error) {
      // Tried again on the next run: a lost connection comes back, or the session ends.
      if (!isRequestError(error)) this.#open.delete(key)
    } finally {
      this.#running.delete(key)
    }
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
