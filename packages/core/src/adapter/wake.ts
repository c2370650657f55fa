import type { Clock, Timer } from './clock.ts'

/** How a sleep ended. `due`: at a time set by `wakeBy`. */
export type Waking = 'woken' | 'due' | 'timeout' | 'aborted'

export interface SleepOptions {
  readonly signal?: AbortSignal
  /** Whether the sleep keeps the process alive. Default: false. */
  readonly keepAlive?: boolean
}

/**
 * A sleep that ends when it is woken, when its time is over or when a signal aborts. A wake-up while nothing sleeps
 * ends the next sleep, so none is lost between a look at the store and the sleep.
 */
export class Wake {
  readonly #clock: Clock
  #woken = false
  /** The earliest time set by `wakeBy`. */
  #dueAt = Infinity
  #end: ((how: Waking) => void) | undefined
  #rearm: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get sleeping(): boolean {
    return this.#end !== undefined
  }

  wake(): void {
    if (this.#end === undefined) this.#woken = true
    else this.#end('woken')
  }

  /** Wakes at `at` by the clock. Never delays an earlier end. */
  wakeBy(at: number): void {
    if (at >= this.#dueAt) return
    this.#dueAt = at
    this.#rearm?.()
  }

  /** Takes back every `wakeBy`. */
  sleepOn(): void {
    this.#dueAt = Infinity
    this.#rearm?.()
  }

  /** Drops a wake-up that came while nothing slept: a look at the store that begins now sees its cause. */
  clear(): void {
    if (this.sleeping) return
    this.#woken = false
    this.#dueAt = Infinity
  }

  /** There is one sleep at a time: an earlier one ends as woken. */
  async sleep(maxMs: number, { signal, keepAlive = false }: SleepOptions = {}): Promise<Waking> {
    this.#end?.('woken')
    if (signal?.aborted) return 'aborted'
    if (this.#woken) {
      this.clear()
      return 'woken'
    }
    return new Promise((resolve) => this.#sleepUntil(this.#clock.now() + maxMs, signal, keepAlive, resolve))
  }

  #sleepUntil(
    until: number,
    signal: AbortSignal | undefined,
    keepAlive: boolean,
    resolve: (how: Waking) => void,
  ): void {
    const clock = this.#clock
    let timer: Timer | undefined
    const end = (how: Waking): void => {
      timer?.cancel()
      signal?.removeEventListener('abort', abort)
      this.#end = this.#rearm = undefined
      this.clear()
      resolve(how)
    }
    const abort = (): void => end('aborted')
    const arm = (): void => {
      timer?.cancel()
      const how = this.#dueAt < until ? 'due' : 'timeout'
      const leftMs = Math.min(until, this.#dueAt) - clock.now()
      if (leftMs <= 0) return end(how)
      timer = clock.timer(leftMs, () => end(how))
      if (keepAlive) timer.keepAlive(true)
    }
    signal?.addEventListener('abort', abort)
    this.#end = end
    this.#rearm = arm
    arm()
  }
}

/** The result of `work`, or `undefined` after `maxMs` or when the signal aborts. */
export async function orAfter<T>(
  clock: Clock,
  maxMs: number,
  work: Promise<T>,
  options?: SleepOptions,
): Promise<T | undefined> {
  const wake = new Wake(clock)
  const done = (): void => wake.wake()
  work.then(done, done)
  return (await wake.sleep(maxMs, options)) === 'woken' ? work : undefined
}
