import type { Clock, Timer } from '@locks/core/adapter'
import { isCutOff } from './errors.ts'
import type { Session } from './session.ts'

/** A directory that was not used for this long is removed if it is empty. */
const LINGER_MS = 1_000

/**
 * Removes the directories of free locks: not at every release, which would double its cost, but
 * when a name has been idle for a while. The server refuses to remove one with children, and who
 * finds his directory gone makes it anew, so nobody has to be asked.
 */
export class Janitor {
  readonly #clock: Clock
  readonly #session: () => Session | undefined
  /** In the order they fall due. */
  readonly #idle = new Map<string, { readonly dueAt: number; readonly sequence: number }>()
  #timer: Timer | undefined
  #finished = false

  constructor(clock: Clock, session: () => Session | undefined) {
    this.#clock = clock
    this.#session = session
  }

  /** Somebody here left `directory`, where he had this number. */
  left(directory: string, sequence: number): void {
    if (this.#finished) return
    this.#idle.delete(directory)
    this.#idle.set(directory, { dueAt: this.#clock.now() + LINGER_MS, sequence })
    this.#arm()
  }

  /** The last known number in `directory`, if that is likely to be there. In use again, it is not looked after. */
  reused(directory: string): number | undefined {
    const idle = this.#idle.get(directory)
    this.#idle.delete(directory)
    return idle?.sequence
  }

  /** Removes what is left, due or not, and then nothing any more. */
  finish(): void {
    this.#finished = true
    this.#timer?.cancel()
    this.#timer = undefined
    const directories = [...this.#idle.keys()]
    this.#idle.clear()
    for (const directory of directories) void this.#remove(directory)
  }

  #arm(): void {
    if (this.#timer !== undefined) return
    for (const { dueAt } of this.#idle.values()) {
      this.#timer = this.#clock.timer(dueAt - this.#clock.now(), () => this.#sweep())
      return
    }
  }

  #sweep(): void {
    this.#timer = undefined
    const now = this.#clock.now()
    for (const [directory, { dueAt }] of this.#idle) {
      if (dueAt > now) break
      this.#idle.delete(directory)
      void this.#remove(directory)
    }
    this.#arm()
  }

  async #remove(directory: string): Promise<void> {
    const session = this.#session()
    try {
      if (session !== undefined) return await session.wire.remove(directory)
    } catch (error) {
      // Gone or in use is fine, and whoever leaves it next tries again.
      if (!isCutOff(error)) return
    }
    if (!this.#idle.has(directory)) this.left(directory, 0)
  }
}
