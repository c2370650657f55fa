import { openSync, readSync } from 'node:fs'
import { cpuUsage, hrtime } from 'node:process'

/** Milliseconds of the host's monotonic clock, the same for every process of the host. */
export function hostNow(): number {
  return Number(hrtime.bigint()) / 1e6
}

/** Time that a process lost between `from` and `to`, on the clock of `hostNow`. */
export interface Gap {
  readonly from: number
  readonly to: number
  readonly lostMs: number
}

const BEAT_MS = 20
/** Timers have a resolution of one millisecond. */
const NOISE_MS = 1
const KEPT_MS = 10 * 60_000

/**
 * Beats at a fixed interval and records its gaps: the process was stopped or swapped out, waited for a CPU, or the
 * laptop slept. Time that the program itself computed does not count, since that is not a stall of the machine.
 */
export class Heartbeat {
  #gaps: Gap[] = []
  #timer: NodeJS.Timeout | undefined
  #users = 0

  /** Beats until `stop` was called as often as `start`. Does not keep the process alive. */
  start(): void {
    this.#users += 1
    if (this.#timer !== undefined) return
    let last = { at: hostNow(), ...threadTimes() }
    this.#timer = setInterval(() => {
      const now = { at: hostNow(), ...threadTimes() }
      const ranMs = now.ranMs - last.ranMs
      const lostMs = Math.max(now.at - last.at - BEAT_MS - ranMs, now.waitedMs - last.waitedMs)
      if (lostMs > NOISE_MS) this.#gaps.push({ from: last.at, to: now.at, lostMs })
      last = now
      if ((this.#gaps[0]?.to ?? Infinity) < now.at - KEPT_MS) this.#gaps.shift()
    }, BEAT_MS)
    this.#timer.unref()
  }

  stop(): void {
    this.#users -= 1
    if (this.#users > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  gaps(): readonly Gap[] {
    return this.#gaps
  }

  /** The gaps since the last call. */
  take(): readonly Gap[] {
    const gaps = this.#gaps
    this.#gaps = []
    return gaps
  }
}

interface ThreadTimes {
  /** How long it ran on a CPU, or was blocked on purpose. */
  readonly ranMs: number
  /** How long it was ready to run and waited for a CPU. Zero where the system does not count it. */
  readonly waitedMs: number
}

let blockedMs = 0

/**
 * Blocks the event loop. Counts as computing, which it stands for, but leaves the CPU to others. No stall excuses what
 * other rules miss meanwhile: a rule that blocks its own process runs alone.
 */
export function block(ms: number): void {
  blockedMs += ms
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

const read = Buffer.alloc(128)
/** Opened at the first beat and kept open, since it is read at every beat. Null where the system does not count. */
let counts: number | null | undefined

function threadTimes(): ThreadTimes {
  if (counts === undefined) counts = openCounts()
  const { ranMs, waitedMs } = counts === null ? cpuTimes() : readCounts(counts)
  return { ranMs: ranMs + blockedMs, waitedMs }
}

function cpuTimes(): ThreadTimes {
  const { user, system } = cpuUsage()
  return { ranMs: (user + system) / 1e3, waitedMs: 0 }
}

function readCounts(file: number): ThreadTimes {
  return parseSchedstat(read.toString('latin1', 0, readSync(file, read, 0, read.length, 0)))
}

function openCounts(): number | null {
  try {
    return process.platform === 'linux' ? openSync('/proc/thread-self/schedstat', 'r') : null
  } catch {
    // A kernel without scheduler statistics.
    return null
  }
}

export function parseSchedstat(text: string): ThreadTimes {
  const [ran = 0, waited = 0] = text.split(' ').map(Number)
  return { ranMs: ran / 1e6, waitedMs: waited / 1e6 }
}
