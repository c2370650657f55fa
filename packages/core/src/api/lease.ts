import { inspect } from 'node:util'
import type { InspectOptions } from 'node:util'
import type { Context } from '../engine/context.ts'
import type { Lease, LeaseJson } from './contract.ts'
import type { LeaseState } from '../engine/hold.ts'
import type { Duration } from '../adapter/duration.ts'
import { isLockError, LockError, quote, storeError } from '../adapter/lock-error.ts'
import { writeHandover } from './serialized-lease.ts'
import type { Hold } from '../engine/hold.ts'
import { writeSequencer } from './sequencer.ts'
import type { RenewOutcome } from '../adapter/spi.ts'
import { boundedCall } from '../engine/deadlines.ts'
import { checkTtl } from './validate.ts'
import { unsupported } from '../adapter/lock-error.ts'

export class LeaseHandle implements Lease {
  readonly #context: Context
  readonly #hold: Hold
  /** Released or handed over by this handle: no longer valid, even if that is not confirmed. */
  #left = false
  /** The end was reported to the caller. */
  #over = false
  /** The store did not confirm the release. */
  #unconfirmed = false
  #releasing: Promise<void> | undefined

  static {
    Object.defineProperty(this.prototype, inspect.custom, {
      value(this: LeaseHandle, depth: number, options: InspectOptions): string {
        return this.#inspected(depth, options)
      },
    })
  }

  private constructor(context: Context, hold: Hold) {
    this.#context = context
    this.#hold = hold
    hold.leases += 1
  }

  /** The lease of a new hold. */
  static first(context: Context, hold: Hold, calledAt: number, attempts: number): LeaseHandle {
    return LeaseHandle.#make(context, hold, calledAt, attempts, false)
  }

  /** One more lease of a hold of the same owner. */
  static join(context: Context, hold: Hold, calledAt: number, attempts: number): LeaseHandle {
    return LeaseHandle.#make(context, hold, calledAt, attempts, true)
  }

  static #make(
    context: Context,
    hold: Hold,
    calledAt: number,
    attempts: number,
    reentered: boolean,
  ): LeaseHandle {
    const lease = new LeaseHandle(context, hold)
    const { request, grant } = hold
    const { fence } = grant
    context.reportEnd({ request, calledAt, attempts }, { outcome: 'acquired', fence, reentered })
    return lease
  }

  /** For the scope of a `with` callback. */
  get hold(): Hold {
    return this.#hold
  }

  get name(): string {
    return this.#hold.grant.name
  }

  get owner(): string {
    return this.#hold.owner
  }

  get fence(): bigint {
    return this.#hold.grant.fence
  }

  get sequencer(): string {
    return writeSequencer({ name: this.name, mode: this.#hold.request.mode, fence: this.fence })
  }

  get signal(): AbortSignal {
    return this.#hold.signal
  }

  get state(): LeaseState {
    const state = this.#checked()
    return state === 'held' && this.#hold.unreadMs() > 0 ? 'jeopardy' : state
  }

  get remainingMs(): number {
    return this.#left ? 0 : this.#hold.remainingMs()
  }

  assertHeld(): void {
    this.#assertLive()
    const unreadMs = this.#hold.unreadMs()
    if (unreadMs > 0) throw this.#inDoubt(unreadMs)
  }

  async extend(ttlMs?: Duration): Promise<void> {
    const given = ttlMs === undefined ? undefined : checkTtl(ttlMs, this.#context.adapter.capabilities)
    this.#assertLive()
    const hold = this.#hold
    const { adapter, clock } = this.#context
    const asked = given === undefined ? hold.term.ttlMs : hold.ttlOf(given)
    const sentAt = clock.now()
    const renewal = hold.renewal(sentAt, asked)
    let outcome: RenewOutcome = 'unknown'
    let failure: unknown
    try {
      const call = (): Promise<readonly RenewOutcome[]> => adapter.renew([renewal])
      outcome = (await boundedCall(this.#context, this.name, call, { retry: false })).answer[0] ?? 'unknown'
    } catch (error) {
      failure = error
    }
    if (outcome === 'renewed') hold.term.ttlMs = asked
    hold.answered(outcome, sentAt, asked, failure)
    if (hold.ended !== undefined) throw hold.ended
    if (this.#left) throw this.#notOwned()
    if (outcome !== 'renewed') throw storeError(this.name, failure, clock.now() - sentAt)
  }

  release(): Promise<void> {
    if (this.#releasing !== undefined) return this.#releasing
    const hold = this.#hold
    if (!this.#over && !this.#unconfirmed) {
      if (hold.check() === 'lost' || hold.ended !== undefined) this.#over = true
      else {
        hold.leases -= 1
        this.#left = true
        if (hold.leases === 0) return (this.#releasing = this.#free())
        this.#over = true
        return Promise.resolve()
      }
    }
    if (this.#over) return Promise.reject(hold.ended ?? this.#notOwned())
    return (this.#releasing = this.#free())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#over) await this.release()
  }

  serialize(): string {
    const { capabilities } = this.#context.adapter
    if (!capabilities.handover) throw unsupported('serialize (hand-over)')
    this.#assertLive()
    if (this.#hold.leases > 1)
      throw new LockError(
        'LOCK_UNSUPPORTED',
        `lock ${quote(this.name)} is re-entered and cannot be handed over: release its other leases first`,
      )
    this.#left = true
    this.#over = true
    const hold = this.#hold
    const minHoldMs = hold.minHoldMs()
    hold.handOver()
    const lease = { ...hold.request, fence: this.fence, ttlMs: hold.term.ttlMs }
    return writeHandover(minHoldMs === 0 ? lease : { ...lease, minHoldMs })
  }

  toJSON(): LeaseJson {
    const { name, owner, state, fence } = this
    return { name, owner, state, fence: String(fence), remainingMs: Math.floor(this.remainingMs) }
  }

  #inspected(depth: number, options: InspectOptions): string {
    if (depth < 0) return '[Lease]'
    return `Lease ${inspect({ ...this.toJSON(), fence: this.fence }, options)}`
  }

  /** Always awaits the store, so `#releasing` is assigned before this clears it. */
  async #free(): Promise<void> {
    try {
      await (this.#unconfirmed ? this.#hold.releaseAgain() : this.#hold.release())
      this.#over = true
    } catch (error) {
      if (isLockError(error, 'LOCK_LOST')) this.#over = true
      else this.#unconfirmed = true
      throw error
    } finally {
      this.#releasing = undefined
    }
  }

  /** The state by the clock and the reports so far. */
  #checked(): LeaseState {
    const state = this.#hold.check()
    return this.#left && state !== 'lost' ? 'released' : state
  }

  #assertLive(): void {
    const state = this.#checked()
    if (state === 'held' || state === 'jeopardy') return
    throw this.#hold.ended ?? this.#notOwned()
  }

  #inDoubt(unreadMs: number): LockError {
    const unread = `the event loop has not read the connection that holds it for ${Math.round(unreadMs)} ms`
    return new LockError(
      'LOCK_UNAVAILABLE',
      `lock ${quote(this.name)} may no longer be held: ${unread}; ` +
        'await lease.extend() to ask the store, and continue only if it resolves',
      { lock: this.name },
    )
  }

  #notOwned(): LockError {
    return new LockError('LOCK_NOT_OWNED', `this lease of ${quote(this.name)} was already released`, {
      lock: this.name,
    })
  }
}
