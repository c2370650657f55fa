import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { adapterFault, kindOf } from './adapter-fault.ts'
import { Timers } from './timers.ts'
import { defaultOwner, newAttemptId } from '../adapter/attempt-id.ts'
import type { CompleteAdapter } from '../adapter/fallbacks.ts'
import { checkedAdapter } from './checked-adapter.ts'
import type { Clock } from '../adapter/clock.ts'
import { LockError } from '../api/errors.ts'
import { Events } from '../api/events.ts'
import type { EventSubject } from '../api/events.ts'
import type { Hold } from './hold.ts'
import { LoopMeter } from './loop-meter.ts'
import type { LateRelease } from './late-release.ts'
import type { Settings } from '../api/options.ts'
import { Renewals } from './renewals.ts'
import { NameQueue } from './name-queue.ts'
import type { AcquireRequest, AdapterFactory, AdapterHost, HolderMetadata } from '../adapter/spi.ts'
import { boundedCall } from './bounded-call.ts'

const host = hostname()

/** What most requests say about their holder. */
const plainMetadata: HolderMetadata = { host, pid: process.pid }

/** A call that may be granted the name, and when it was sent. */
export interface AttemptUnderWay {
  readonly answer: Promise<unknown>
  readonly sentAt: number
}

/** What the parts of one client share. Private to core; programs see `Locks`. */
export class Context {
  readonly clientId: string = randomUUID()
  readonly clock: Clock
  readonly storeTimeoutMs: number
  readonly timers: Timers
  readonly renewals: Renewals = new Renewals(this)
  readonly events: Events = new Events()
  readonly adapter: CompleteAdapter
  /** Present where a hold ends with its connection. */
  readonly meter: LoopMeter | undefined
  /** Holds by attempt id. */
  readonly holds: Map<string, Hold> = new Map()
  readonly lateReleases: Set<LateRelease> = new Set()
  readonly #queues = new Map<string, NameQueue>()
  readonly #background = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined
  #adapterClosed = false

  /** What every event says of where it comes from. */
  readonly #origin: { readonly store?: string; readonly adapter?: string }

  constructor(factory: AdapterFactory, clock: Clock, storeTimeoutMs: number, store?: string) {
    this.clock = clock
    this.storeTimeoutMs = storeTimeoutMs
    this.timers = new Timers(clock)
    const report: AdapterHost['report'] = (state, attemptId) => this.#report(state, attemptId)
    this.adapter = checkedAdapter(factory, { clientId: this.clientId, clock, report })
    const { name } = this.adapter
    this.#origin = { ...(store !== undefined && { store }), ...(name !== undefined && { adapter: name }) }
    if (this.adapter.capabilities.kind === 'connection')
      this.meter = new LoopMeter(clock, () => this.#queues.size > 0)
  }

  request(name: string, settings: Settings): AcquireRequest {
    const attemptId = newAttemptId(this.clientId)
    const { label } = settings
    return {
      name,
      attemptId,
      owner: settings.owner ?? defaultOwner(attemptId),
      mode: settings.mode,
      ttlMs: settings.ttlMs,
      lockDelayMs: settings.lockDelayMs,
      willWait: settings.waitMs > 0,
      metadata: label === undefined ? plainMetadata : { ...plainMetadata, label },
    }
  }

  /** What an event says about whose it is. */
  about({ name, owner, metadata: { label } }: AcquireRequest): EventSubject {
    return { lock: name, owner, ...(label !== undefined && { label }), ...this.#origin }
  }

  queue(name: string): NameQueue {
    let queue = this.#queues.get(name)
    if (this.#queues.size === 0) this.meter?.start()
    if (queue === undefined) this.#queues.set(name, (queue = new NameQueue(this, name)))
    return queue
  }

  existingQueue(name: string): NameQueue | undefined {
    return this.#queues.get(name)
  }

  forget(queue: NameQueue): void {
    if (this.#queues.get(queue.name) === queue) this.#queues.delete(queue.name)
  }

  /** A report that makes no sense may have meant any hold and any state: every hold is in doubt until renewed. */
  #report(state: unknown, attemptId: unknown): void {
    const known = state === 'ok' || state === 'jeopardy' || state === 'lost'
    if (known && typeof attemptId === 'string') return this.holds.get(attemptId)?.reported(state)
    const sane = known && attemptId === undefined
    const fault = sane ? undefined : adapterFault('report', `${kindOf(state)} about ${kindOf(attemptId)}`)
    for (const hold of [...this.holds.values()]) hold.reported(sane ? state : 'jeopardy', fault)
  }

  /**
   * Withdraws a request, insisting while the store fails. Never rejects: the ttl cleans up what this cannot. An attempt
   * of it that is under way goes first; only one that has been silent for `storeTimeoutMs` is overtaken, and its
   * request is withdrawn again once it is answered.
   */
  undo(request: AcquireRequest, attempt?: AttemptUnderWay): Promise<void> {
    if (attempt === undefined) return this.#withdraw(request)
    const undone = this.inBackground(this.#undoAfter(request, attempt))
    // The next in line waits no longer for both than for one of them.
    return this.inBackground(boundedCall(this, request.name, () => undone, { retry: false }))
  }

  async #undoAfter(request: AcquireRequest, { answer, sentAt }: AttemptUnderWay): Promise<void> {
    const settled = answer.then(nothing, nothing)
    const overdue = this.clock.now() >= sentAt + this.storeTimeoutMs
    if (overdue || !(await this.#inTime(request, settled, sentAt)))
      void settled.then(() => this.#withdraw(request))
    return this.#withdraw(request)
  }

  /** Whether `settled` comes within `storeTimeoutMs` after `since`. */
  async #inTime({ name }: AcquireRequest, settled: Promise<void>, since: number): Promise<boolean> {
    try {
      await boundedCall(this, name, () => settled, { retry: false, since })
      return true
    } catch {
      // It cannot reject, so this is its time being over.
      return false
    }
  }

  /** A closed adapter is asked once, for an answer that came after all over a connection of the user's. */
  #withdraw(request: AcquireRequest): Promise<void> {
    const withdraw = (): Promise<void> => this.adapter.withdraw(request)
    return this.inBackground(boundedCall(this, request.name, withdraw, { retry: !this.#adapterClosed }))
  }

  /** Keeps track of work nobody waits for, so that `close` can; its failure concerns nobody. */
  inBackground(work: Promise<unknown>): Promise<void> {
    const forget = (): void => void this.#background.delete(done)
    const done: Promise<void> = work.then(forget, forget)
    this.#background.add(done)
    return done
  }

  get closed(): boolean {
    return this.#closing !== undefined
  }

  assertOpen(): void {
    if (this.closed) throw this.closedError()
  }

  closedError(lock?: string): LockError {
    return new LockError('LOCK_CLOSED', 'the locks client was closed', lock === undefined ? {} : { lock })
  }

  close(): Promise<void> {
    if (this.#closing !== undefined) return this.#closing
    let begin: (closed: Promise<void>) => void = () => undefined
    this.#closing = new Promise((resolve) => (begin = resolve))
    // Closed from here on: it tells listeners of the user's, and those may call back.
    begin(this.#close())
    return this.#closing
  }

  async #close(): Promise<void> {
    for (const queue of [...this.#queues.values()]) queue.close(this.closedError(queue.name))
    for (const hold of [...this.holds.values()])
      void this.inBackground(hold.close(this.closedError(hold.grant.name)))
    for (const late of [...this.lateReleases]) late.finish()
    // Every piece of background work ends by itself within storeTimeoutMs, and may start one more.
    while (this.#background.size > 0) await Promise.all(this.#background)
    this.#adapterClosed = true
    try {
      await boundedCall(this, '(all)', () => this.adapter.close(), { retry: false })
    } finally {
      // A call of the user's that is still under way has to end as well.
      if (this.timers.size === 0) this.timers.stop()
      this.meter?.stop()
    }
  }
}

function nothing(): void {}
