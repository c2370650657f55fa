import { SILENCE_MS } from './acquisition.ts'
import type { Acquisition, Obstacle } from './acquisition.ts'
import type { Context } from './context.ts'
import type { LockError } from '../api/errors.ts'
import type { Hold } from './hold.ts'
import type { Holder } from '../adapter/spi.ts'

/**
 * The in-process side of one name: the hold this client has, the one acquisition that waits at the
 * store, and those that wait behind it in the order they came. However many tasks want the name,
 * the store sees one of them wait.
 */
export class NameQueue {
  readonly name: string
  readonly #context: Context
  readonly #waiting = new Set<Acquisition>()
  /** Tries that will not wait, made past a head that does. */
  readonly #passing = new Set<Acquisition>()
  #hold: Hold | undefined
  #head: Acquisition | undefined
  /** Releases and withdrawals under way: the next head would only run into them. */
  #cleaning = 0
  #cleaningSince = 0
  /** Why the last one left, if the store failed it: likely what keeps the withdrawal from coming through, too. */
  #failure: unknown

  constructor(context: Context, name: string) {
    this.#context = context
    this.name = name
  }

  get hold(): Hold | undefined {
    return this.#hold
  }

  /** What the store failed the last acquisition with: a try that waits for its withdrawal reports the same. */
  get failure(): unknown {
    return this.#failure
  }

  enter(acquisition: Acquisition): void {
    if (this.#idle() && this.#waiting.size === 0) return this.#lead(acquisition)
    const headWaits = this.#head?.busy !== undefined
    if (this.#hold === undefined && headWaits && acquisition.once) {
      // What the head heard may be old: a try gets an answer of its own.
      return this.#pass(acquisition)
    }
    this.#waiting.add(acquisition)
    if (this.#hold !== undefined) acquisition.foundBusy(this.#hold.holder())
    else if (headWaits) acquisition.foundBusy(this.#head?.busy?.holder)
  }

  /**
   * The store told `acquisition` that the name is taken, asked at `sentAt`. A try that was called since gets a newer
   * answer: its own past a head that waits on, and otherwise that of whoever asks next.
   */
  heardBusy(acquisition: Acquisition, holder: Holder | undefined, sentAt: number): void {
    if (this.#head !== acquisition) return
    for (const waiter of this.#waiting) {
      if (!waiter.once || waiter.calledAt <= sentAt) waiter.foundBusy(holder)
      else if (!acquisition.once) this.#passFromLine(waiter)
    }
  }

  /** The store failed `acquisition`, which may go on trying; tries in line behind it get an answer of their own. */
  heardFailure(acquisition: Acquisition): void {
    if (this.#head !== acquisition) return
    for (const waiter of this.#waiting) if (waiter.once) this.#passFromLine(waiter)
  }

  /** Why the name is not to be had for those in line. */
  obstacle(now: number): Obstacle {
    if (this.#hold !== undefined) return { holder: this.#hold.holder() }
    if (this.#head !== undefined) return this.#head.obstacle(now)
    const silent = now - this.#cleaningSince >= SILENCE_MS
    return silent || this.#failure !== undefined ? { failure: this.#failure } : { holder: undefined }
  }

  /** A hold began, by `acquisition` or from elsewhere. */
  occupy(hold: Hold, acquisition?: Acquisition): void {
    this.#hold = hold
    this.#failure = undefined
    if (acquisition !== undefined) this.#remove(acquisition)
    const contending = this.#head === undefined ? [...this.#passing] : [this.#head, ...this.#passing]
    for (const other of [...contending, ...this.#waiting]) if (other.owner === hold.owner) other.reenter(hold)
    for (const waiter of this.#waiting) waiter.foundBusy(hold.holder())
  }

  /** The hold ended. The next in line goes on once `cleanup` is over, whatever came of it. */
  vacate(hold: Hold, cleanup?: Promise<unknown>): void {
    if (this.#hold !== hold) return
    this.#hold = undefined
    this.#cleanThenAdvance(cleanup)
  }

  /** An acquisition is over without a hold. */
  leave(acquisition: Acquisition, cleanup?: Promise<unknown>): void {
    this.#remove(acquisition)
    this.#failure = acquisition.failure
    this.#cleanThenAdvance(cleanup)
  }

  close(error: LockError): void {
    for (const one of [...this.#waiting, ...this.#passing]) one.abandon('aborted', error)
    this.#head?.abandon('aborted', error)
  }

  #idle(): boolean {
    return this.#hold === undefined && this.#head === undefined && this.#cleaning === 0
  }

  #remove(acquisition: Acquisition): void {
    if (this.#head === acquisition) this.#head = undefined
    this.#waiting.delete(acquisition)
    this.#passing.delete(acquisition)
  }

  #lead(acquisition: Acquisition): void {
    this.#head = acquisition
    void acquisition.contend()
  }

  #pass(acquisition: Acquisition): void {
    this.#passing.add(acquisition)
    void acquisition.contend()
  }

  #passFromLine(acquisition: Acquisition): void {
    this.#waiting.delete(acquisition)
    this.#pass(acquisition)
  }

  #cleanThenAdvance(cleanup: Promise<unknown> | undefined): void {
    if (cleanup === undefined) return this.#advance()
    if (this.#cleaning++ === 0) this.#cleaningSince = this.#context.clock.now()
    const done = (): void => {
      this.#cleaning -= 1
      this.#advance()
    }
    cleanup.then(done, done)
  }

  #advance(): void {
    if (!this.#idle()) return
    for (const next of this.#waiting) {
      this.#waiting.delete(next)
      return this.#lead(next)
    }
    if (this.#passing.size === 0) this.#context.forget(this)
  }
}
