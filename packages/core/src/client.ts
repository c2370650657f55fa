import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { adapterFault, kindOf } from './adapter-fault.ts'
import { Alarms } from './alarms.ts'
import { defaultOwner, newAttemptId } from './attempt-id.ts'
import { checkedAdapter } from './checked-adapter.ts'
import type { Clock } from './clock.ts'
import { LockError } from './errors.ts'
import { Events } from './events.ts'
import type { EventSubject } from './events.ts'
import type { Hold } from './hold.ts'
import { LoopMeter } from './loop-meter.ts'
import type { LateRelease } from './late-release.ts'
import type { Settings } from './options.ts'
import { Renewer } from './renewer.ts'
import { Slot } from './slot.ts'
import type { AcquireRequest, Adapter, AdapterFactory, AdapterHost, HolderMetadata } from './spi.ts'
import { callStore } from './store-call.ts'

const host = hostname()

/** What most requests say about their holder. */
const plainMetadata: HolderMetadata = { host, pid: process.pid }

/** What the parts of one client share. Private to core; programs see `Locks`. */
export class Client {
  readonly clientId: string = randomUUID()
  readonly clock: Clock
  readonly storeTimeoutMs: number
  readonly alarms: Alarms
  readonly renewer: Renewer = new Renewer(this)
  readonly events: Events = new Events()
  readonly adapter: Adapter
  /** Present where a hold ends with its connection. */
  readonly meter: LoopMeter | undefined
  /** Holds by attempt id. */
  readonly holds: Map<string, Hold> = new Map()
  readonly lateReleases: Set<LateRelease> = new Set()
  readonly #slots = new Map<string, Slot>()
  readonly #background = new Set<Promise<unknown>>()
  #closing: Promise<void> | undefined
  #adapterClosed = false

  /** What every event says of where it comes from. */
  readonly #origin: { readonly store?: string; readonly adapter?: string }

  constructor(factory: AdapterFactory, clock: Clock, storeTimeoutMs: number, store?: string) {
    this.clock = clock
    this.storeTimeoutMs = storeTimeoutMs
    this.alarms = new Alarms(clock)
    const report: AdapterHost['report'] = (state, attemptId) => this.#report(state, attemptId)
    this.adapter = checkedAdapter(factory, { clientId: this.clientId, clock, report })
    const { name } = this.adapter
    this.#origin = { ...(store !== undefined && { store }), ...(name !== undefined && { adapter: name }) }
    if (this.adapter.capabilities.kind === 'connection')
      this.meter = new LoopMeter(clock, () => this.#slots.size > 0)
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

  slot(name: string): Slot {
    let slot = this.#slots.get(name)
    if (this.#slots.size === 0) this.meter?.start()
    if (slot === undefined) this.#slots.set(name, (slot = new Slot(this, name)))
    return slot
  }

  existingSlot(name: string): Slot | undefined {
    return this.#slots.get(name)
  }

  forget(slot: Slot): void {
    if (this.#slots.get(slot.name) === slot) this.#slots.delete(slot.name)
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
   * Withdraws a request, insisting while the store fails. Never rejects: the ttl cleans up what this cannot. A closed
   * adapter is asked once, for an answer that came after all over a connection of the user's.
   */
  undo(request: AcquireRequest): Promise<void> {
    const withdraw = (): Promise<void> => this.adapter.withdraw(request)
    return this.inBackground(callStore(this, request.name, withdraw, { retry: !this.#adapterClosed }))
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

  closedError(): LockError {
    return new LockError('LOCK_CLOSED', 'the locks client was closed')
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
    for (const slot of [...this.#slots.values()]) slot.close(this.closedError())
    for (const hold of [...this.holds.values()]) void this.inBackground(hold.close(this.closedError()))
    for (const late of [...this.lateReleases]) late.finish()
    // Every piece of background work ends by itself within storeTimeoutMs, and may start one more.
    while (this.#background.size > 0) await Promise.all(this.#background)
    this.#adapterClosed = true
    try {
      await callStore(this, '(all)', () => this.adapter.close(), { retry: false })
    } finally {
      // A call of the user's that is still under way has to end as well.
      if (this.alarms.size === 0) this.alarms.stop()
      this.meter?.stop()
    }
  }
}
