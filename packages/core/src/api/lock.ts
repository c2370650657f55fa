import { Acquisition } from '../engine/acquisition.ts'
import type { Capabilities } from '../adapter/capabilities.ts'
import type { Client } from '../engine/client.ts'
import type { Context } from '../engine/context.ts'
import { heldError, isLockError, LockError } from './errors.ts'
import type { Hold } from '../engine/hold.ts'
import { LeaseHandle } from './lease.ts'
import type { Lease } from './lease.ts'
import type { AcquireOptions, OnceOptions, Settings } from './options.ts'
import { enclosingHold, runInScope } from '../engine/re-entry.ts'
import { breakHold } from '../engine/operators.ts'
import type { Holder, LockState } from '../adapter/spi.ts'
import { boundedCall } from '../engine/store-patience.ts'
import { invalid, settle } from './validate.ts'
import type { Purpose } from './validate.ts'

/** A named lock. Cheap to make, holds nothing itself, and safe to share between tasks. */
export interface Lock<C extends Capabilities = Capabilities> {
  readonly name: string
  /** Waits for the lock and returns its lease. Throws `LOCK_TIMEOUT` if another holder kept it for `waitMs`. */
  acquire(options?: AcquireOptions<C>): Promise<Lease<C>>
  /**
   * Tries without waiting for a holder. Returns `null` if the lock is held, and throws on any other failure. While the
   * store fails it tries again, for `storeTimeoutMs` or `retry.attempts`.
   */
  tryAcquire(options?: Omit<AcquireOptions<C>, 'waitMs'>): Promise<Lease<C> | null>
  /**
   * Runs `fn` while holding the lock. Inside `fn`, acquiring the same name again re-enters. A failed release never
   * replaces the outcome of `fn`; a lock lost meanwhile always throws `LOCK_LOST`.
   */
  with<T>(fn: (lease: Lease<C>) => T | Promise<T>): Promise<T>
  with<T>(options: AcquireOptions<C>, fn: (lease: Lease<C>) => T | Promise<T>): Promise<T>
  inspect(): Promise<LockState>
  /**
   * Ends the current hold. For operators: the next waiter gets the lock under a higher fence, and the broken holder
   * finds out with its next renewal. Returns the broken holder, or `null` if the lock was free or, with a `fence`, if
   * the hold with that fence has ended.
   */
  break(
    this: C['break'] extends false ? never : Lock<C>,
    options?: { readonly fence?: bigint },
  ): Promise<Holder | null>
}

/** The result of `locks.once`: the value of its callback, or the holder that already ran in this period. */
export type Once<T> =
  | { readonly ran: true; readonly value: T }
  | { readonly ran: false; readonly holder: Holder | undefined }

export type Body<T> = (lease: Lease) => T | Promise<T>

export class NamedLock implements Lock {
  readonly name: string
  readonly #client: Client
  readonly #context: Context
  readonly #defaults: Settings

  constructor(client: Client, name: string, defaults: Settings) {
    this.#client = client
    this.#context = client.context
    this.name = name
    this.#defaults = defaults
  }

  async acquire(options?: AcquireOptions): Promise<LeaseHandle> {
    const lease = await this.#acquire(this.#settle('acquire', options), 'throw')
    if (lease === null) throw heldError(this.name, undefined, undefined)
    return lease
  }

  async tryAcquire(options?: Omit<AcquireOptions, 'waitMs'>): Promise<LeaseHandle | null> {
    return this.#acquire({ ...this.#settle('try', options), waitMs: 0 }, 'null')
  }

  async with<T>(optionsOrBody: AcquireOptions | Body<T>, body?: Body<T>): Promise<T> {
    const [options, fn] =
      typeof optionsOrBody === 'function' ? [undefined, optionsOrBody] : [optionsOrBody, body]
    if (typeof fn !== 'function') throw invalid('with needs a callback')
    return this.#run(await this.acquire(options), fn)
  }

  /** Like `with`, but tries once by default, and returns the holder of a held lock instead of throwing. */
  async once<T>(options: OnceOptions, fn: Body<T>): Promise<Once<T>> {
    if (typeof fn !== 'function') throw invalid('once needs a callback')
    const settings = this.#settle('acquire', options, { ...this.#defaults, waitMs: 0 })
    if (settings.minHoldMs === 0)
      throw invalid('once needs a minHoldMs above 0: the time until it may run again')
    let lease: LeaseHandle | null
    try {
      lease = await this.#acquire(settings, 'throw')
    } catch (error) {
      if (!isLockError(error, 'LOCK_TIMEOUT')) throw error
      return { ran: false, holder: error.holder }
    }
    if (lease === null) return { ran: false, holder: undefined }
    return { ran: true, value: await this.#run(lease, fn) }
  }

  async #run<T>(lease: LeaseHandle, fn: Body<T>): Promise<T> {
    let value: T
    try {
      value = await runInScope(this.#context, lease.hold, () => fn(lease))
    } catch (error) {
      const loss = await this.#endOf(lease)
      if (loss === undefined || error === loss) throw error
      // The callback may have thrown this same loss.
      if (isLockError(error, loss.code) && error.lock === this.name) throw error
      throw new LockError(loss.code, loss.message, { lock: this.name, cause: error })
    }
    const loss = await this.#endOf(lease)
    if (loss !== undefined) throw loss
    return value
  }

  async inspect(): Promise<LockState> {
    this.#context.assertOpen()
    const { adapter } = this.#context
    const { answer } = await boundedCall(this.#context, this.name, () => adapter.inspect(this.name), {
      retry: false,
    })
    return answer
  }

  async break({ fence }: { readonly fence?: bigint } = {}): Promise<Holder | null> {
    if (fence !== undefined && typeof fence !== 'bigint') throw invalid('fence must be a bigint')
    return breakHold(this.#context, await this.inspect(), fence)
  }

  #settle(purpose: Purpose, options: unknown, base: Settings = this.#defaults): Settings {
    return settle(purpose, options, base, this.#context.adapter.capabilities)
  }

  #acquire(settings: Settings, onBusy: 'null' | 'throw'): Promise<LeaseHandle | null> {
    const context = this.#context
    const { signal } = settings
    if (signal?.aborted === true) throw this.#ended(settings, 'aborted', signal.reason)
    if (context.closed) throw this.#ended(settings, 'aborted', context.closedError(this.name))
    const held = this.#reenterable(settings.owner)
    if (held !== undefined) {
      held.check()
      if (held.ended !== undefined) throw this.#ended(settings, 'lost', held.ended)
      held.keepFor(settings.minHoldMs)
      return Promise.resolve(LeaseHandle.join(context, held, context.clock.now(), 0))
    }
    // A hold that expired ends here, and its queue may be dropped with it.
    this.#client.queues.existing(this.name)?.hold?.check()
    return new Promise((resolve, reject) => {
      new Acquisition(context, this.#client.queues.of(this.name), settings, onBusy, resolve, reject).start()
    })
  }

  /** Reports an acquire that ended before it began. Returns what to throw. */
  #ended(settings: Settings, outcome: 'aborted' | 'lost', error: unknown): unknown {
    const context = this.#context
    const request = context.request(this.name, settings)
    context.reportEnd({ request, calledAt: context.clock.now(), attempts: 0 }, { outcome, error })
    return error
  }

  #reenterable(owner: string | undefined): Hold | undefined {
    if (owner === undefined) return enclosingHold(this.#context, this.name)
    const hold = this.#client.queues.existing(this.name)?.hold
    hold?.check()
    return hold?.live === true && hold.owner === owner ? hold : undefined
  }

  /** Releases, and returns an error that must be thrown. An unconfirmed release is reported as an event and goes on. */
  async #endOf(lease: LeaseHandle): Promise<LockError | undefined> {
    try {
      await lease.release()
    } catch (error) {
      if (isLockError(error, 'LOCK_LOST') || isLockError(error, 'LOCK_CLOSED')) return error
      if (!isLockError(error, 'LOCK_NOT_OWNED')) this.#client.lateReleases.start(lease.hold)
    }
    return undefined
  }
}
