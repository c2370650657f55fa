import type { Clock, Timer } from '../adapter/clock.ts'

const TICK_MS = 25

/** An event loop that has not read its sockets for longer than this counts as blocked. */
export const STALL_MS = 500

/**
 * When the event loop last read its sockets. A hold that is a connection may end at any moment, and the news of it
 * lies unread on the socket while the loop is blocked: then nobody here can tell. Runs while the client has locks.
 */
export class LoopMeter {
  readonly #clock: Clock
  #inUse = false
  #timer: Timer | undefined
  #readAt = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Everything that had arrived by this time has been read. */
  get readAt(): number {
    return this.#readAt
  }

  /** Call before the first lock is asked for: nothing can be unread of a hold that is not there yet. */
  start(): void {
    this.#inUse = true
    this.#readAt = this.#clock.now()
    if (this.#timer === undefined) this.#arm()
  }

  /** No lock is in use: the next tick is the last. */
  pause(): void {
    this.#inUse = false
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = undefined
  }

  #arm(): void {
    this.#timer = this.#clock.timer(TICK_MS, () => this.#tick())
  }

  #tick(): void {
    this.#timer = undefined
    if (!this.#inUse) return
    this.#arm()
    // Callbacks may take long before the next poll, and after it: only what came before this moment is sure to be read.
    const at = this.#clock.now()
    const read = (): void => void (this.#readAt = Math.max(this.#readAt, at))
    if (this.#clock.afterPoll === undefined) read()
    else this.#clock.afterPoll(read)
  }
}
