import { isRequestError } from './errors.ts'
import type { Requests } from './requests.ts'

/** Returns whether it is done; otherwise it runs again later. */
export type Chore = (requests: Requests) => Promise<boolean>

/** Work that must not be forgotten: each chore is repeated until it succeeds or the session is over. */
export class Chores {
  /** Called when there is something to run. */
  added: () => void = () => undefined
  /** Called when nothing is left. */
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

  run(requests: Requests): void {
    for (const [key, chore] of this.#open) if (!this.#running.has(key)) void this.#try(key, chore, requests)
  }

  async #try(key: string, chore: Chore, requests: Requests): Promise<void> {
    this.#running.add(key)
    try {
      if (await chore(requests)) this.#done(key, chore)
    } catch (error) {
      // A failed request is sent again on the next run; a lost connection comes back, or the session ends.
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
