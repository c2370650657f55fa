import type { Clock, Timer } from '../adapter/clock.ts'

/** Something that wants to be called at a time. Carries its own place in the heap, so that it can leave at once. */
export interface Alarm {
  at: number
  /** How much earlier it may be called, to go together with others. */
  slackMs: number
  /** Index in the heap, -1 when not set. Owned by `Timers`. */
  slot: number
  /** Whether the process must stay alive for it. */
  readonly keepsAlive: boolean
  fire(now: number): void
}

const MISTAKE_MS = 1_000

/**
 * Every deadline of a client on one timer: a binary heap of alarms. Setting and cancelling on the
 * way of an uncontended cycle touches no system timer: a timer that is armed too early just fires,
 * finds nothing due and re-arms.
 */
export class Timers {
  readonly #clock: Clock
  readonly #heap: Alarm[] = []
  #timer: Timer | undefined
  #armedFor = Infinity
  #keepAlive = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#heap.length
  }

  /** A time that is not a number rings after a second: it is a mistake, but must neither be lost nor loop. */
  set(alarm: Alarm, time: number): void {
    if (alarm.slot >= 0) this.cancel(alarm)
    const at = Number.isNaN(time) ? this.#clock.now() + MISTAKE_MS : time
    alarm.at = at
    alarm.slot = this.#heap.push(alarm) - 1
    this.#up(alarm.slot)
    if (at < this.#armedFor) this.#arm(at)
    if (alarm.keepsAlive && this.#keepAlive++ === 0) this.#timer?.keepAlive(true)
  }

  cancel(alarm: Alarm): void {
    const { slot } = alarm
    if (slot < 0) return
    alarm.slot = -1
    const last = this.#heap.pop()
    if (last !== undefined && last !== alarm) {
      this.#heap[slot] = last
      last.slot = slot
      this.#up(slot)
      this.#down(slot)
    }
    if (alarm.keepsAlive && --this.#keepAlive === 0) this.#timer?.keepAlive(false)
  }

  stop(): void {
    this.#timer?.cancel()
    this.#timer = undefined
    this.#armedFor = Infinity
  }

  #arm(at: number): void {
    this.#timer?.cancel()
    this.#armedFor = at
    this.#timer = this.#clock.timer(at - this.#clock.now(), () => this.#ring())
    if (this.#keepAlive > 0) this.#timer.keepAlive(true)
  }

  #ring(): void {
    this.stop()
    const now = this.#clock.now()
    // Bounded, so that alarms which set themselves for a time that is over still let the process breathe.
    let most = this.#heap.length
    for (let next = this.#heap[0]; next !== undefined && most > 0; next = this.#heap[0], most -= 1) {
      if (next.at - next.slackMs > now) break
      this.cancel(next)
      next.fire(now)
    }
    const next = this.#heap[0]
    if (next !== undefined && next.at < this.#armedFor) this.#arm(next.at)
  }

  #up(from: number): void {
    const heap = this.#heap
    let slot = from
    const alarm = heap[slot]
    if (alarm === undefined) return
    while (slot > 0) {
      const above = (slot - 1) >> 1
      const parent = heap[above]
      if (parent === undefined || parent.at <= alarm.at) break
      heap[slot] = parent
      parent.slot = slot
      slot = above
    }
    heap[slot] = alarm
    alarm.slot = slot
  }

  #down(from: number): void {
    const heap = this.#heap
    let slot = from
    const alarm = heap[slot]
    if (alarm === undefined) return
    for (;;) {
      let below = 2 * slot + 1
      let child = heap[below]
      if (child === undefined) break
      const right = heap[below + 1]
      if (right !== undefined && right.at < child.at) {
        child = right
        below += 1
      }
      if (child.at >= alarm.at) break
      heap[slot] = child
      child.slot = slot
      slot = below
    }
    heap[slot] = alarm
    alarm.slot = slot
  }
}
