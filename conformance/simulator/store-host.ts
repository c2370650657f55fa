import type {
  AcquireRequest,
  Adapter,
  Busy,
  Grant,
  PushedGrant,
  Renewal,
  RenewOutcome,
} from '@locks/core/adapter'
import { memory } from '@locks/memory'
import { Process } from './virtual-clock.ts'
import type { World } from './world.ts'

export type WaitMode = Adapter['capabilities']['wait']

/** A place in the queue is lost when its client was not heard of for so long. */
export const QUEUE_PATIENCE_MS = 600

interface Queued {
  readonly request: AcquireRequest
  heardAt: number
  listening: number
}

/**
 * The server: the memory adapter on a host of its own. It adds what a store across a network needs
 * and one inside the process does not: it forgets waiters that do not come back.
 */
export class StoreHost {
  readonly process: Process
  readonly adapter: Adapter
  readonly waitMode: WaitMode
  readonly #queued = new Map<string, Queued>()
  readonly #listeners = new Map<string, Set<() => void>>()
  readonly #heldUntil = new Map<string, number>()
  #goesDown = new AbortController()
  #down = false

  constructor(world: World, waitMode: WaitMode, wrap: (adapter: Adapter) => Adapter = (adapter) => adapter) {
    this.process = new Process(world, 'store', world.random.between(0.996, 1.004))
    this.waitMode = waitMode
    const { clock } = this.process
    this.adapter = wrap(memory()({ clientId: 'store', clock, report: () => undefined }))
  }

  get time(): number {
    return this.process.clock.now()
  }

  /** Whether `name` was held at or after that true time. */
  wasHeldSince(name: string, trueTime: number): boolean {
    return (this.#heldUntil.get(name) ?? -Infinity) >= this.process.localTime(trueTime)
  }

  serve<T>(execute: () => Promise<T>): Promise<T> {
    return this.#down ? Promise.reject(new Error('connection refused')) : execute()
  }

  /** Connections are gone and refused until it is up again; what it knows it keeps. */
  goDown(): void {
    this.#down = true
    this.#goesDown.abort('down')
    this.#goesDown = new AbortController()
  }

  comeUp(): void {
    this.#down = false
  }

  async attempt(request: AcquireRequest): Promise<Grant | Busy> {
    const { attemptId, name } = request
    const willWait = request.willWait && this.waitMode === 'handoff'
    const answer = await this.adapter.attempt({ ...request, willWait })
    if ('busy' in answer && willWait)
      this.#queued.set(attemptId, {
        request,
        heardAt: this.time,
        listening: 0,
        ...this.#queued.get(attemptId),
      })
    else this.#queued.delete(attemptId)
    await this.#note(name)
    return answer
  }

  async wait(request: AcquireRequest, maxMs: number, signal: AbortSignal): Promise<PushedGrant | undefined> {
    const ended = AbortSignal.any([signal, this.#goesDown.signal])
    if (this.waitMode !== 'handoff') return this.#hear(request.name, maxMs, ended)
    const place = this.#queued.get(request.attemptId)
    if (place !== undefined) place.listening += 1
    const pushed = await this.adapter.wait?.(request, maxMs, ended)
    if (place !== undefined) {
      place.listening -= 1
      place.heardAt = this.time
    }
    if (pushed !== undefined) this.#queued.delete(request.attemptId)
    return pushed
  }

  /** Runs what changes the holder of `name`, and tells those who listen. */
  async change<T>(name: string, act: () => Promise<T>): Promise<T> {
    const answer = await act()
    await this.#note(name)
    for (const wake of [...(this.#listeners.get(name) ?? [])]) wake()
    return answer
  }

  async renew(renewals: readonly Renewal[]): Promise<readonly RenewOutcome[]> {
    const outcomes = await this.adapter.renew(renewals)
    for (const { grant } of renewals) await this.#note(grant.name)
    return outcomes
  }

  async withdraw(request: AcquireRequest): Promise<void> {
    this.#queued.delete(request.attemptId)
    await this.change(request.name, async () => this.adapter.withdraw?.(request))
  }

  /** Drops waiters that did not come back. They received no grant, so none of them relies on one. */
  sweep(): void {
    for (const { request, heardAt, listening } of [...this.#queued.values()])
      if (listening === 0 && this.time - heardAt > QUEUE_PATIENCE_MS) void this.withdraw(request)
  }

  async #note(name: string): Promise<void> {
    const { held, remainingMs = 0 } = await this.adapter.inspect(name)
    const until = this.time + remainingMs
    this.#heldUntil.set(name, held ? until : Math.min(this.time, this.#heldUntil.get(name) ?? -Infinity))
  }

  #hear(name: string, maxMs: number, signal: AbortSignal): Promise<undefined> {
    const listeners = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, listeners)
    return new Promise((resolve) => {
      const timer = this.process.clock.timer(maxMs, end)
      signal.addEventListener('abort', end, { once: true })
      listeners.add(end)
      function end(): void {
        timer.cancel()
        signal.removeEventListener('abort', end)
        listeners.delete(end)
        resolve(undefined)
      }
    })
  }
}
