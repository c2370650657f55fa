import type { Clock } from '@locks/core'
import type { Timer } from '@locks/core/adapter'
import type { Random } from './random.ts'
import type { World } from './world.ts'

/**
 * One process with a clock of its own. While it is stopped its clock goes on, but no timer and no
 * message reaches it; code that is stopped half-way goes on at once, and finds itself in the future.
 */
export class Process {
  readonly id: string
  readonly clock: Clock
  crashed = false
  stoppedUntil = 0
  /** How likely it is to be stopped at a reading of its clock, which may be anywhere in core. */
  stallChance = 0
  /** By how much a timer may be late: it may have been stopped between reading the clock and setting it. */
  timersLateMs = 0
  /** For how long it was stopped, all in all, and until when the last time. */
  stoppedMs = 0
  /** Timers of its clock that are set. */
  timers = 0
  onStall: (from: number, until: number) => void = () => undefined
  readonly #world: World
  readonly #random: Random
  readonly #rate: number
  readonly #epoch: number
  #aheadUntil = 0

  /** `rate` is how many of its milliseconds go by in a true one. */
  constructor(world: World, id: string, rate: number) {
    this.#world = world
    this.#random = world.random.fork()
    this.#epoch = this.#random.between(0, 1e6)
    this.#rate = rate
    this.id = id
    this.clock = {
      now: () => this.#readClock(),
      timer: (delayMs, fire) => this.#timer(delayMs, fire),
      random: () => this.#random.next(),
    }
  }

  /** True time, as code of this process meets it. */
  get now(): number {
    return Math.max(this.#world.now, this.stoppedUntil)
  }

  /** A duration of its own clock in true milliseconds. */
  trueMs(localMs: number): number {
    return localMs / this.#rate
  }

  localTime(trueTime: number): number {
    return this.#epoch + trueTime * this.#rate
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#world.at(this.now + ms, resolve, this))
  }

  /** Stops it from outside, between two of its steps. */
  pause(ms: number): void {
    this.stoppedUntil = Math.max(this.stoppedUntil, this.#world.now + ms)
    this.stoppedMs += ms
  }

  /** Stops it right here in its own code, whether by a signal or by a loop that does not yield. */
  stall(ms: number): void {
    const from = this.now
    this.#aheadUntil = this.stoppedUntil = from + ms
    this.stoppedMs += ms
    this.onStall(from, this.stoppedUntil)
  }

  /** Ends it forever, after what it has done already in its own future. */
  crash(record: () => void): void {
    this.#world.at(this.#aheadUntil, () => {
      if (this.crashed) return
      this.crashed = true
      record()
    })
  }

  /** Reads something of it without disturbing it. */
  steadily<T>(read: () => T): T {
    const { stallChance } = this
    this.stallChance = 0
    const value = read()
    this.stallChance = stallChance
    return value
  }

  #readClock(): number {
    const before = this.localTime(this.now)
    if (!this.#random.chance(this.stallChance)) return before
    const ms = this.#random.between(1, 2_000)
    this.stall(ms)
    this.timersLateMs = Math.max(this.timersLateMs, ms)
    return this.#random.chance(0.5) ? before : this.localTime(this.now)
  }

  #timer(delayMs: number, fire: () => void): Timer {
    this.timers += 1
    let set = true
    const unset = (): boolean => {
      if (set) this.timers -= 1
      return set && !(set = false)
    }
    const due = this.now + this.trueMs(Math.max(1, Math.ceil(delayMs)))
    const occurrence = this.#world.at(due, () => void (unset() && fire()), this)
    return {
      cancel: () => void (unset() && occurrence.cancel()),
      keepAlive: () => undefined,
    }
  }
}
