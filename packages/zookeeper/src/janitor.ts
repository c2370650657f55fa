import { orAfter } from '@locks/core/adapter'
import type { Clock, Timer } from '@locks/core/adapter'
import { isCutOff } from './errors.ts'
import { removeOwn } from './own-directories.ts'
import type { Session } from './session.ts'

/** A directory that was not used for this long is removed if it is empty. */
const LINGER_MS = 1_000

/** How long `finish` takes at most. */
const FINISH_MS = 1_000

/**
 * Removes the directories of free locks once they have been idle for a while: at every release it would double the
 * cost. Only those that this package created. It needs no agreement: the server refuses to remove a directory that has
 * children, and a client that finds its directory missing creates it again.
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

  /** A node of this client left `directory`; it had this sequence number. */
  left(directory: string, sequence: number): void {
    if (this.#finished) return
    this.#idle.delete(directory)
    this.#idle.set(directory, { dueAt: this.#clock.now() + LINGER_MS, sequence })
    this.#arm()
  }

  /** Stops watching a directory that is in use again. Returns its last known sequence number, if it probably exists. */
  reused(directory: string): number | undefined {
    const idle = this.#idle.get(directory)
    this.#idle.delete(directory)
    return idle?.sequence
  }

  /** Removes what is left, due or not, and nothing after that. */
  async finish(): Promise<void> {
    this.#finished = true
    this.#timer?.cancel()
    this.#timer = undefined
    const directories = [...this.#idle.keys()]
    this.#idle.clear()
    if (directories.length === 0) return
    const removed = Promise.all(directories.map((directory) => this.#remove(directory)))
    await orAfter(this.#clock, FINISH_MS, removed, { keepAlive: true })
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
      if (session !== undefined) return void (await removeOwn(session.requests, directory))
    } catch (error) {
      // A directory that is in use stays; the next client to leave it tries again.
      if (!isCutOff(error)) return
    }
    if (!this.#idle.has(directory)) this.left(directory, 0)
  }
}
