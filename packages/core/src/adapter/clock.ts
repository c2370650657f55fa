/**
 * The one place core takes time and chance from. A simulation passes its own, and then every
 * deadline, back-off and renewal of a client runs in virtual time and replays from a seed.
 */
export interface Clock {
  /** Monotonic milliseconds. MUST never follow the wall clock. */
  now(): number
  /** Runs `fire` once, `delayMs` from now. A system timer starts out unreferenced. */
  timer(delayMs: number, fire: () => void): Timer
  /** Uniform in [0, 1); only back-off jitter draws from it. */
  random(): number
  /**
   * Runs `done` once the event loop has read, and reported, everything that had arrived on its sockets by this call.
   * Without it, a timer is taken to run only after that.
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
 * Rounds of the event loop until a socket that the other side closed is reported as closed. The first immediate may
 * come from the round that is under way, whose poll is over; a round's close events come after its immediates; a socket
 * beneath TLS closes one round after that. One more is for good measure.
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
