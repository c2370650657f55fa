/**
 * The only source of time and randomness in core. With a clock of a simulation, every deadline, back-off and renewal of
 * a client runs in virtual time and can be replayed from a seed.
 */
export interface Clock {
  /** Monotonic milliseconds. MUST never follow the wall clock. */
  now(): number
  /** Runs `fire` once, `delayMs` from now. A system timer starts out unreferenced. */
  timer(delayMs: number, fire: () => void): Timer
  /** Uniform in [0, 1). Used for jitter only. */
  random(): number
  /**
   * Runs `done` when the event loop has read and reported everything that had arrived on its sockets before this call.
   * Without this method, core assumes that a timer runs only after that.
   */
  afterPoll?(done: () => void): void
}

export interface Timer {
  cancel(): void
  /** Whether this timer keeps the process alive. */
  keepAlive(yes: boolean): void
}

/** `setTimeout` fires at once above this, so no duration may exceed it. */
export const MAX_TIMER_MS = 2_147_483_647

/**
 * Iterations of the event loop until a socket that the peer closed is reported as closed. The first immediate may
 * belong to the current iteration, whose poll is over; close events of an iteration come after its immediates; a socket
 * under TLS closes one iteration later. One more is a margin.
 */
const ROUNDS_TO_READ = 4

export const systemClock: Clock = {
  now: () => performance.now(),
  timer(delayMs, fire) {
    const handle = setTimeout(fire, Math.min(Math.max(0, Math.ceil(delayMs)), MAX_TIMER_MS))
    handle.unref()
    return {
      cancel: () => clearTimeout(handle),
      keepAlive: (yes) => void (yes ? handle.ref() : handle.unref()),
    }
  },
  random: Math.random,
  afterPoll(done) {
    let rounds = ROUNDS_TO_READ
    const round = (): void => void ((rounds -= 1) > 0 ? setImmediate(round) : done())
    setImmediate(round)
  },
}

/** Resolves after `ms`. */
export function pause(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.timer(ms, resolve))
}

/**
 * The part of a ttl to rely on, counted from before the request was sent: 1 % and 2 ms less than the ttl, since the
 * clocks of client and store may run at slightly different rates.
 */
export function safeTtlMs(ttlMs: number): number {
  return ttlMs - ttlMs / 100 - 2
}

/**
 * A timer that runs this late shows that the process was paused. Timers run before sockets are read, so an answer may
 * have arrived meanwhile and gets a little time to be read.
 */
export const PAUSE_MS = 1_000

/** How long an answer has to be read after a pause, where the other side has `timeoutMs` to answer. */
export function graceMs(timeoutMs: number): number {
  return Math.min(PAUSE_MS, timeoutMs)
}

/** Whether a timer that was due at `dueAt` and runs `now` shows that this process was paused. */
export function wasPaused(dueAt: number, now: number, pauseMs: number = PAUSE_MS): boolean {
  return now - dueAt >= pauseMs
}

/** Forgives a time-out that a pause of this process caused. Not twice in a row, so that a slow process still ends. */
export class Patience {
  #forgave = false

  /** Whether to go on for a while, although what was due at `dueAt` has not come by `now`. */
  forgives(dueAt: number, now: number): boolean {
    this.#forgave = !this.#forgave && wasPaused(dueAt, now)
    return this.#forgave
  }
}

/** Calls `giveUp` after `timeoutMs`, and a grace period if this process was paused. Can be cancelled. */
export function onSilence(clock: Clock, timeoutMs: number, giveUp: () => void): Pick<Timer, 'cancel'> {
  const dueAt = clock.now() + timeoutMs
  let timer = clock.timer(timeoutMs, () => {
    if (wasPaused(dueAt, clock.now())) timer = clock.timer(graceMs(timeoutMs), giveUp)
    else giveUp()
  })
  return { cancel: () => timer.cancel() }
}

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
