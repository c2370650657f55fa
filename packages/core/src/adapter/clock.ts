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
