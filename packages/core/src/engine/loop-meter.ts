import type { Clock, Timer } from '../adapter/time.ts'

const TICK_MS = 25

/** An event loop that has not read its sockets for longer than this counts as blocked. */
const STALL_MS = 500

/**
 * Measures when the event loop last read its sockets. A hold that ends with its connection may end at any moment, and
 * while the loop is blocked nothing reads that from the socket. Runs while the client has locks.
 */
export class LoopMeter {
  readonly #clock: Clock
  #inUse = false
  #timer: Timer | undefined
  /** Everything that had arrived by this time has been read. */
  #readAt = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** How long the sockets have not been read after `since`; 0 if that is too short to matter. */
  unreadMs(since: number): number {
    const unreadMs = this.#clock.now() - Math.max(this.#readAt, since)
    return unreadMs > STALL_MS ? unreadMs : 0
  }

  /** To be called before the first lock is requested: there is nothing to read about a hold that does not exist. */
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
    // Callbacks may take long before and after the next poll: only what arrived before now is sure to be read.
    const at = this.#clock.now()
    const read = (): void => void (this.#readAt = Math.max(this.#readAt, at))
    if (this.#clock.afterPoll === undefined) read()
    else this.#clock.afterPoll(read)
  }
}
