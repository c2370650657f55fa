import type { Busy, Holder } from '../adapter/spi.ts'
import type { LockError } from '../adapter/lock-error.ts'
import type { Context } from './context.ts'
import type { Hold, HoldOwner } from './hold.ts'
import { SILENCE_MS } from './contention.ts'
import type { Obstacle } from './contention.ts'

/** An acquire, as the queue of its name sees it. */
export interface QueuedAcquire {
  readonly calledAt: number
  /** The explicit owner, by which a waiter may join a hold that began meanwhile. */
  readonly owner: string | undefined
  /** Tries without waiting. */
  readonly once: boolean
  /** The last answer of the store, if it was "busy". */
  readonly busy: Busy | undefined
  /** What the store last failed with, if it has not answered since. */
  readonly failure: unknown
  /** What this one waits for, and so do the acquires queued behind it. */
  obstacle(now: number): Obstacle
  /** It is its turn: attempts and waits at the store until there is an outcome. */
  contend(): void
  /** Called when the name is known to be held. Reports that once, and ends a try that will not wait. */
  foundBusy(holder: Holder | undefined): void
  /** Joins a hold of its owner. If it contends at the store itself, that ends. */
  reenter(hold: Hold): void
  /** Ends without a lease and leaves nothing behind. */
  end(outcome: 'aborted', error: unknown): void
}

/** The queues of one client, by name. */
export class NameQueues {
  readonly #context: Context
  readonly #byName = new Map<string, NameQueue>()

  constructor(context: Context) {
    this.#context = context
  }

  /** The queue of `name`, which is dropped when nothing is left in it. */
  of(name: string): NameQueue {
    const known = this.#byName.get(name)
    if (this.#byName.size === 0) this.#context.meter?.start()
    if (known !== undefined) return known
    const queue = new NameQueue(this, this.#context, name)
    this.#byName.set(name, queue)
    return queue
  }

  existing(name: string): NameQueue | undefined {
    return this.#byName.get(name)
  }

  drop(queue: NameQueue): void {
    if (this.#byName.get(queue.name) === queue) this.#byName.delete(queue.name)
    if (this.#byName.size === 0) this.#context.meter?.pause()
  }

  close(): void {
    for (const queue of [...this.#byName.values()]) queue.close(this.#context.closedError(queue.name))
  }
}

/** What a queue without waiters iterates over. */
const nobody: ReadonlySet<QueuedAcquire> = new Set()

/**
 * One name inside one client: the hold that this client has, the acquire that contends at the store (the head), and
 * those that wait behind it in the order of their calls. However many tasks want the name, the store sees one of them.
 */
export class NameQueue implements HoldOwner {
  readonly name: string
  readonly #queues: NameQueues
  readonly #context: Context
  /** Made with the first waiter: most queues never have one. */
  #waiting: Set<QueuedAcquire> | undefined
  /** Tries that will not wait and contend beside a head that does. */
  #passing: Set<QueuedAcquire> | undefined
  #hold: Hold | undefined
  #head: QueuedAcquire | undefined
  /** Releases and withdrawals under way: the next head would only run into them. */
  #cleaning = 0
  #cleaningSince = 0
  /** What the store failed the last acquire with: its withdrawal likely fails for the same reason. */
  #failure: unknown

  constructor(queues: NameQueues, context: Context, name: string) {
    this.#queues = queues
    this.#context = context
    this.name = name
  }

  get hold(): Hold | undefined {
    return this.#hold
  }

  /** What the store failed the last acquire with. A try that waits for its withdrawal reports the same. */
  get failure(): unknown {
    return this.#failure
  }

  enter(acquire: QueuedAcquire): void {
    if (this.#idle() && this.#inLine.size === 0) return this.#lead(acquire)
    const headWaits = this.#head?.busy !== undefined
    // The head's answer may be old: a try asks the store itself.
    if (this.#hold === undefined && headWaits && acquire.once) return this.#pass(acquire)
    this.#waiting ??= new Set()
    this.#waiting.add(acquire)
    if (this.#hold !== undefined) acquire.foundBusy(this.#hold.holder())
    else if (headWaits) acquire.foundBusy(this.#head?.busy?.holder)
  }

  /**
   * The store answered "busy" to an attempt of `acquire` sent at `sentAt`. A try called since then gets a newer answer:
   * from its own attempt if the head keeps waiting, otherwise from the next head's.
   */
  storeBusy(acquire: QueuedAcquire, holder: Holder | undefined, sentAt: number): void {
    if (this.#head !== acquire) return
    for (const waiter of this.#inLine) {
      if (!waiter.once || waiter.calledAt <= sentAt) waiter.foundBusy(holder)
      else if (!acquire.once) this.#passFromLine(waiter)
    }
  }

  /** The store failed `acquire`, which may go on. Tries queued behind it ask the store themselves. */
  storeFailed(acquire: QueuedAcquire): void {
    if (this.#head !== acquire) return
    for (const waiter of this.#inLine) if (waiter.once) this.#passFromLine(waiter)
  }

  /** What the waiters wait for. */
  obstacle(now: number): Obstacle {
    if (this.#hold !== undefined) return { holder: this.#hold.holder() }
    if (this.#head !== undefined) return this.#head.obstacle(now)
    const silent = now - this.#cleaningSince >= SILENCE_MS
    return silent || this.#failure !== undefined ? { failure: this.#failure } : { holder: undefined }
  }

  /** A hold began: of `acquire`, or one that was resumed. */
  occupy(hold: Hold, acquire?: QueuedAcquire): void {
    if (acquire !== undefined) this.#remove(acquire)
    this.#failure = undefined
    // It may have ended while listeners were called.
    if (!hold.live) return this.#advance()
    this.#hold = hold
    if (this.#head === undefined && this.#passing === undefined && this.#waiting === undefined) return
    for (const other of [this.#head, ...this.#besideHead, ...this.#inLine])
      if (other?.owner === hold.owner) other.reenter(hold)
    for (const waiter of this.#inLine) waiter.foundBusy(hold.holder())
  }

  /** The hold ended. The next waiter contends once `cleanup` settles. */
  holdEnded(hold: Hold, cleanup?: Promise<unknown>): void {
    if (this.#hold !== hold) return
    this.#hold = undefined
    this.#cleanThenAdvance(cleanup)
  }

  /** An acquire ended without a hold. */
  acquireEnded(acquire: QueuedAcquire, cleanup?: Promise<unknown>): void {
    this.#remove(acquire)
    this.#failure = acquire.failure
    this.#cleanThenAdvance(cleanup)
  }

  close(error: LockError): void {
    for (const one of [...this.#inLine, ...this.#besideHead]) one.end('aborted', error)
    this.#head?.end('aborted', error)
  }

  get #inLine(): ReadonlySet<QueuedAcquire> {
    return this.#waiting ?? nobody
  }

  get #besideHead(): ReadonlySet<QueuedAcquire> {
    return this.#passing ?? nobody
  }

  #idle(): boolean {
    return this.#hold === undefined && this.#head === undefined && this.#cleaning === 0
  }

  #remove(acquire: QueuedAcquire): void {
    if (this.#head === acquire) this.#head = undefined
    this.#waiting?.delete(acquire)
    this.#passing?.delete(acquire)
  }

  #lead(acquire: QueuedAcquire): void {
    this.#head = acquire
    acquire.contend()
  }

  #pass(acquire: QueuedAcquire): void {
    this.#passing ??= new Set()
    this.#passing.add(acquire)
    acquire.contend()
  }

  #passFromLine(acquire: QueuedAcquire): void {
    this.#waiting?.delete(acquire)
    this.#pass(acquire)
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
    for (const next of this.#inLine) {
      this.#waiting?.delete(next)
      return this.#lead(next)
    }
    if (this.#besideHead.size === 0) this.#queues.drop(this)
  }
}
