import { isFinal, storeError } from '../adapter/lock-error.ts'
import type { LockError } from '../adapter/lock-error.ts'
import { graceMs, Patience } from '../adapter/time.ts'
import type { Clock, Timer } from '../adapter/time.ts'
import { defaultSettings } from './settings.ts'

// The deadlines of a client, and calls to the store that end by one.

/** What an alarm calls when it is due. */
export interface AlarmTarget {
  fire(now: number): void
}

/** A deadline of one target, made by `Timers.alarm`. Set or not, it may be set anew at any time. */
export interface Alarm {
  /** Fires at `time`, or up to `slackMs` earlier if the timer runs for another alarm then. */
  set(time: number, slackMs?: number): void
  cancel(): void
}

/** An alarm's place in the heap. Knows its index, so that it can be taken out without a search. */
class HeapEntry implements Alarm {
  at = 0
  slackMs = 0
  /** Index in the heap, -1 while it is not set. */
  index = -1
  readonly target: AlarmTarget
  readonly keepsAlive: boolean
  readonly #timers: Timers

  constructor(timers: Timers, target: AlarmTarget, keepsAlive: boolean) {
    this.#timers = timers
    this.target = target
    this.keepsAlive = keepsAlive
  }

  set(time: number, slackMs = 0): void {
    this.slackMs = slackMs
    this.#timers.set(this, time)
  }

  cancel(): void {
    this.#timers.cancel(this)
  }
}

/** When a time that is not a number fires: it is a bug, but the alarm must neither be lost nor loop. */
const NOT_A_TIME_MS = 1_000

/**
 * Every deadline of a client on one system timer: a binary heap of alarms. An uncontended acquire and release touch
 * no system timer: one that is armed too early fires, finds nothing due and is armed again.
 */
export class Timers {
  readonly #clock: Clock
  readonly #heap: HeapEntry[] = []
  #timer: Timer | undefined
  #armedFor = Infinity
  #keepAlive = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#heap.length
  }

  /** A new alarm, not set yet. With `ref` the process stays alive while it is set. */
  alarm(target: AlarmTarget, alive: 'ref' | 'unref'): Alarm {
    return new HeapEntry(this, target, alive === 'ref')
  }

  /** Private to alarms. */
  set(entry: HeapEntry, time: number): void {
    if (entry.index >= 0) this.cancel(entry)
    const at = Number.isNaN(time) ? this.#clock.now() + NOT_A_TIME_MS : time
    entry.at = at
    entry.index = this.#heap.push(entry) - 1
    this.#up(entry.index)
    if (at < this.#armedFor) this.#arm(at)
    if (entry.keepsAlive && this.#keepAlive++ === 0) this.#timer?.keepAlive(true)
  }

  /** Private to alarms. */
  cancel(entry: HeapEntry): void {
    const { index } = entry
    if (index < 0) return
    entry.index = -1
    const last = this.#heap.pop()
    if (last !== undefined && last !== entry) {
      this.#heap[index] = last
      last.index = index
      this.#up(index)
      this.#down(index)
    }
    if (entry.keepsAlive && --this.#keepAlive === 0) this.#timer?.keepAlive(false)
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
    // Bounded, so that targets which set their alarm for a time in the past do not block the event loop.
    let most = this.#heap.length
    for (let next = this.#heap[0]; next !== undefined && most > 0; next = this.#heap[0], most -= 1) {
      if (next.at - next.slackMs > now) break
      this.cancel(next)
      next.target.fire(now)
    }
    const next = this.#heap[0]
    if (next !== undefined && next.at < this.#armedFor) this.#arm(next.at)
  }

  #up(from: number): void {
    const heap = this.#heap
    let index = from
    const entry = heap[index]
    if (entry === undefined) return
    while (index > 0) {
      const above = (index - 1) >> 1
      const parent = heap[above]
      if (parent === undefined || parent.at <= entry.at) break
      heap[index] = parent
      parent.index = index
      index = above
    }
    heap[index] = entry
    entry.index = index
  }

  #down(from: number): void {
    const heap = this.#heap
    let index = from
    const entry = heap[index]
    if (entry === undefined) return
    for (;;) {
      let below = 2 * index + 1
      let child = heap[below]
      if (child === undefined) break
      const right = heap[below + 1]
      if (right !== undefined && right.at < child.at) {
        child = right
        below += 1
      }
      if (child.at >= entry.at) break
      heap[index] = child
      child.index = index
      index = below
    }
    heap[index] = entry
    entry.index = index
  }
}

/** Exponential back-off with full jitter: between 1 ms and `delayMs · 2ⁿ`, at most `maxDelayMs`. */
export function backoffMs(
  n: number,
  { delayMs, maxDelayMs }: { readonly delayMs: number; readonly maxDelayMs: number },
  clock: Clock,
): number {
  const ceiling = Math.min(maxDelayMs, delayMs * 2 ** Math.min(n, 30))
  return Math.max(1, clock.random() * ceiling)
}

/** What bounds the calls of a client. */
interface Bounds {
  readonly clock: Clock
  readonly timers: Timers
  readonly storeTimeoutMs: number
}

interface CallOptions {
  /** Whether to try again after a rejection. Only for idempotent calls. */
  readonly retry: boolean
  /** From when its time counts, by the client's clock. Default: now. */
  readonly since?: number
}

/**
 * One call to the store that always ends: with an answer, or with `LOCK_UNAVAILABLE` after the client's
 * `storeTimeoutMs`, even if the adapter never settles. After a pause of this process the answer gets a grace period.
 */
export function boundedCall<T>(
  bounds: Bounds,
  lock: string,
  call: () => Promise<T>,
  options: CallOptions,
): Promise<{ readonly answer: T; readonly tries: number }> {
  return new Promise((resolve, reject) => {
    new BoundedCall(bounds, lock, call, options, resolve, reject).start()
  })
}

class BoundedCall<T> implements AlarmTarget {
  readonly #bounds: Bounds
  readonly #alarm: Alarm
  readonly #lock: string
  readonly #call: () => Promise<T>
  readonly #retry: boolean
  readonly #resolve: (result: { answer: T; tries: number }) => void
  readonly #reject: (error: LockError) => void
  readonly #since: number
  #giveUpAt: number
  #patience: Patience | undefined
  #tries = 0
  #waiting = false
  #done = false
  #failure: unknown

  constructor(
    bounds: Bounds,
    lock: string,
    call: () => Promise<T>,
    { retry, since = bounds.clock.now() }: CallOptions,
    resolve: (result: { answer: T; tries: number }) => void,
    reject: (error: LockError) => void,
  ) {
    this.#bounds = bounds
    this.#lock = lock
    this.#call = call
    this.#retry = retry
    this.#resolve = resolve
    this.#reject = reject
    this.#alarm = bounds.timers.alarm(this, 'ref')
    this.#since = since
    this.#giveUpAt = since + bounds.storeTimeoutMs
  }

  start(): void {
    this.#alarm.set(this.#giveUpAt)
    void this.#try()
  }

  fire(now: number): void {
    if (now >= this.#giveUpAt) {
      this.#patience ??= new Patience()
      if (!this.#patience.forgives(this.#giveUpAt, now)) return this.#fail()
      this.#giveUpAt = now + graceMs(this.#bounds.storeTimeoutMs)
    }
    if (this.#waiting) this.start()
    else this.#alarm.set(this.#giveUpAt)
  }

  async #try(): Promise<void> {
    this.#waiting = false
    this.#tries += 1
    try {
      const answer = await this.#call()
      if (this.#end()) this.#resolve({ answer, tries: this.#tries })
    } catch (error) {
      if (this.#done) return
      this.#failure = error
      if (!this.#retry || isFinal(error)) return this.#fail()
      this.#waiting = true
      const { clock } = this.#bounds
      const again = clock.now() + backoffMs(this.#tries, defaultSettings, clock)
      this.#alarm.set(Math.min(again, this.#giveUpAt))
    }
  }

  #fail(): void {
    if (!this.#end()) return
    this.#reject(storeError(this.#lock, this.#failure, this.#bounds.clock.now() - this.#since))
  }

  #end(): boolean {
    if (this.#done) return false
    this.#done = true
    this.#alarm.cancel()
    return true
  }
}
