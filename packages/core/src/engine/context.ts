import { randomUUID } from 'node:crypto'
import { channel } from 'node:diagnostics_channel'
import { hostname } from 'node:os'
import { defaultOwner, newAttemptId } from '../adapter/attempt-id.ts'
import type { CompleteAdapter } from '../adapter/fallbacks.ts'
import type { AcquireRequest, AdapterFactory, AdapterHost, Grant, HolderMetadata } from '../adapter/spi.ts'
import type { Clock } from '../adapter/time.ts'
import { LockError } from '../adapter/lock-error.ts'
import type { AcquireEnd, EventSubject, LockEventName, LockEvents } from './events.ts'
import { withJson } from '../adapter/json.ts'
import type { Settings } from './settings.ts'
import { invalid } from '../adapter/lock-error.ts'
import { adapterFault, kindOf } from './adapter-fault.ts'
import { checkedAdapter } from './checked-adapter.ts'
import { LoopMeter } from './loop-meter.ts'
import { Renewals } from './renewals.ts'
import { Timers } from './deadlines.ts'

/** What most requests say about their holder. */
const plainMetadata: HolderMetadata = { host: hostname(), pid: process.pid }

/** A hold, as far as reports of the adapter and `close` concern it. */
interface OpenHold {
  readonly grant: Grant
  /** The adapter reported something on its own. */
  reported(state: 'ok' | 'jeopardy' | 'lost', cause?: Error): void
  close(error: LockError): Promise<void>
}

/** What a client is made with. */
export interface ContextOptions {
  readonly clock: Clock
  readonly storeTimeoutMs: number
  readonly store: string | undefined
  readonly events: Events
}

/** What an `acquire` event reports of one acquire, besides its end. */
interface Ending {
  readonly request: AcquireRequest
  readonly calledAt: number
  readonly attempts: number
}

/** What the parts of one client share. */
export class Context {
  readonly clientId: string = randomUUID()
  readonly clock: Clock
  readonly storeTimeoutMs: number
  readonly timers: Timers
  readonly events: Events
  readonly adapter: CompleteAdapter
  readonly renewals: Renewals
  /** Present where a hold ends with its connection. */
  readonly meter: LoopMeter | undefined
  /** Holds by attempt id. */
  readonly holds: Map<string, OpenHold> = new Map()
  /** `closing`: nothing may begin. `closed`: the adapter is closed too. */
  phase: 'open' | 'closing' | 'closed' = 'open'
  readonly #background = new Set<Promise<unknown>>()
  /** The fields of every event that identify its client. */
  readonly #origin: { readonly store?: string; readonly adapter?: string }

  constructor(factory: AdapterFactory, { clock, storeTimeoutMs, store, events }: ContextOptions) {
    this.clock = clock
    this.storeTimeoutMs = storeTimeoutMs
    this.events = events
    this.timers = new Timers(clock)
    const report: AdapterHost['report'] = (state, attemptId) => this.#report(state, attemptId)
    this.adapter = checkedAdapter(factory, { clientId: this.clientId, clock, report })
    this.renewals = new Renewals(clock, this.adapter)
    const { name, capabilities } = this.adapter
    this.#origin = { ...(store !== undefined && { store }), ...(name !== undefined && { adapter: name }) }
    if (capabilities.kind === 'connection') this.meter = new LoopMeter(clock)
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

  /** The fields of an event that identify what it is about. */
  about({ name, owner, metadata: { label } }: AcquireRequest): EventSubject {
    return { lock: name, owner, ...(label !== undefined && { label }), ...this.#origin }
  }

  /** Emits the `acquire` event of an acquire that ended, if there is a listener. */
  reportEnd({ request, calledAt, attempts }: Ending, end: AcquireEnd): void {
    if (!this.events.wanted('acquire')) return
    const waitMs = this.clock.now() - calledAt
    this.events.emit('acquire', { ...this.about(request), waitMs, attempts, ...end })
  }

  /** Tracks work that nothing else waits for, so that `close` can wait for it. Its failure is ignored. */
  inBackground(work: Promise<unknown>): Promise<void> {
    const forget = (): void => void this.#background.delete(done)
    const done: Promise<void> = work.then(forget, forget)
    this.#background.add(done)
    return done
  }

  /** Resolves when no background work is left. Each piece ends within `storeTimeoutMs`, and may start one more. */
  async backgroundDone(): Promise<void> {
    while (this.#background.size > 0) await Promise.all(this.#background)
  }

  get closed(): boolean {
    return this.phase !== 'open'
  }

  get isAdapterClosed(): boolean {
    return this.phase === 'closed'
  }

  assertOpen(): void {
    if (this.closed) throw this.closedError()
  }

  closedError(lock?: string): LockError {
    return new LockError('LOCK_CLOSED', 'the locks client was closed', lock === undefined ? {} : { lock })
  }

  /** A malformed report may have meant any hold and any state: every hold is in doubt until it is renewed. */
  #report(state: unknown, attemptId: unknown): void {
    const known = state === 'ok' || state === 'jeopardy' || state === 'lost'
    if (known && typeof attemptId === 'string') return this.holds.get(attemptId)?.reported(state)
    const sane = known && attemptId === undefined
    const fault = sane ? undefined : adapterFault('report', `${kindOf(state)} about ${kindOf(attemptId)}`)
    for (const hold of [...this.holds.values()]) hold.reported(sane ? state : 'jeopardy', fault)
  }
}

const channels = {
  acquire: channel('locks:acquire'),
  release: channel('locks:release'),
  lost: channel('locks:lost'),
  jeopardy: channel('locks:jeopardy'),
  contended: channel('locks:contended'),
} as const satisfies Record<LockEventName, unknown>

type Listeners = { [K in LockEventName]: Set<(payload: LockEvents[K]) => void> }

/** The events of one client. */
export class Events {
  readonly #listeners: Listeners = {
    acquire: new Set(),
    release: new Set(),
    lost: new Set(),
    jeopardy: new Set(),
    contended: new Set(),
  }

  /**
   * Calls into the program: outside the scopes of `with` callbacks, so that a listener does not re-enter their locks.
   */
  readonly outside: (call: () => void) => void

  constructor(outside: (call: () => void) => void) {
    this.outside = outside
  }

  on<K extends LockEventName>(event: K, listener: (payload: LockEvents[K]) => void): () => void {
    if (!Object.hasOwn(this.#listeners, event))
      throw invalid(`unknown event; known: ${Object.keys(this.#listeners).join(', ')}`)
    if (typeof listener !== 'function') throw invalid('a listener must be a function')
    // Wrapped, so that a listener added twice is called twice and can be removed once.
    const own = (payload: LockEvents[K]): void => listener(payload)
    this.#listeners[event].add(own)
    return () => void this.#listeners[event].delete(own)
  }

  /** Checked before a payload is built, so that events without listeners cost nothing. */
  wanted(event: LockEventName): boolean {
    return channels[event].hasSubscribers || this.#listeners[event].size > 0
  }

  emit<K extends LockEventName>(event: K, payload: LockEvents[K]): void {
    withJson(payload)
    if ('holder' in payload) withJson(payload.holder)
    this.outside(() => {
      if (channels[event].hasSubscribers) channels[event].publish(payload)
      const listeners = this.#listeners[event]
      // A copy: a listener that subscribes again in its call would be called forever.
      for (const listener of [...listeners])
        if (listeners.has(listener)) callListener(() => listener(payload))
    })
  }
}

/** An error in a listener must neither break a lock nor be hidden: it is rethrown, as `diagnostics_channel` does. */
function callListener(call: () => void): void {
  try {
    call()
  } catch (error) {
    process.nextTick(() => {
      throw error
    })
  }
}
