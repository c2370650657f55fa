import type { Capabilities } from '../adapter/capabilities.ts'
import { Context } from '../engine/context.ts'
import { systemClock } from '../adapter/clock.ts'
import type { LockEventName, LockEvents } from './events.ts'
import type { Lease } from './lease.ts'
import { NamedLock } from './lock.ts'
import type { Body, Lock, Once } from './lock.ts'
import { defaultSettings, MAX_LABEL_BYTES } from './options.ts'
import type { AcquireOptions, LockOptions, LocksOptions, OnceOptions, Settings } from './options.ts'
import { resumeLease } from '../engine/resume.ts'
import type { ResumeOptions } from '../engine/resume.ts'
import { readSequencer } from './sequencer.ts'
import { diagnose, listHeld, prune } from '../engine/operators.ts'
import type { PruneOptions } from '../engine/operators.ts'
import type { AdapterFactory, Finding, LockState } from '../adapter/spi.ts'
import { checkInteger, checkName, checkText, invalid, settle, unsupported } from './validate.ts'

/** The client a program makes once, over one adapter. */
export interface Locks<C extends Capabilities = Capabilities> extends AsyncDisposable {
  /** What the store can do, and its limits. */
  readonly capabilities: C
  /** The lock of that name: cheap to make, holds nothing by itself, and may be shared. */
  lock(name: string, options?: LockOptions<C>): Lock<C>
  /** Short for `lock(name).with(…)`. */
  with<T>(name: string, fn: (lease: Lease<C>) => T | Promise<T>): Promise<T>
  with<T>(name: string, options: AcquireOptions<C>, fn: (lease: Lease<C>) => T | Promise<T>): Promise<T>
  /**
   * Runs `fn` at most once per period, on however many hosts it is called: while holding the lock, whose name then stays
   * taken until `minHoldMs` after the grant. When the name is taken it returns the holder instead, without waiting unless
   * `waitMs` is given. What goes wrong throws, as with `with`.
   */
  once<T>(
    this: C['minHold'] extends false ? never : Locks<C>,
    name: string,
    options: OnceOptions<C>,
    fn: (lease: Lease<C>) => T | Promise<T>,
  ): Promise<Once<T>>
  /** Who holds the lock, since when and for how long still, as the store has it. */
  inspect(name: string): Promise<LockState>
  /** The locks that are held now, by whomever, at most `limit` of them (1,000 unless told). For operators. */
  list(
    this: C['list'] extends false ? never : Locks<C>,
    options?: { readonly limit?: number },
  ): Promise<readonly LockState[]>
  /** What the store and its settings mean for locks, each finding with what to do. For operators. */
  diagnose(): Promise<readonly Finding[]>
  /**
   * Drops what the store keeps of names that are free and were not granted for `idleMs`. Default: a day. Returns how
   * many names. Fences of a name that comes back are still higher than every earlier one. Clients do this by themselves
   * behind their releases, so it is for operators who do not want to wait for that.
   */
  prune(options?: PruneOptions): Promise<number>
  /**
   * Whether the hold that `lease.sequencer` refers to is still the current one at the store. `LOCK_UNSUPPORTED` where
   * `capabilities.fencing` is `none`.
   */
  checkSequencer(sequencer: string): Promise<boolean>
  /** Continues a lease that `lease.serialize()` gave up. One successor only: a second one gets `LOCK_LOST`. */
  resume(
    this: C['handover'] extends false ? never : Locks<C>,
    text: string,
    options?: ResumeOptions,
  ): Promise<Lease<C>>
  /** Calls `listener` for every event of that name, until the returned function is called. */
  on<K extends LockEventName>(event: K, listener: (payload: LockEvents[K]) => void): () => void
  /** Ends waits with `LOCK_CLOSED`, releases what is held, within a bound, and closes the adapter. */
  close(): Promise<void>
}

/** Makes a client over an adapter. Options given here are the defaults of all its locks. */
export function createLocks<C extends Capabilities>(
  adapter: AdapterFactory<C>,
  options?: LocksOptions<C>,
): Locks<C>
export function createLocks(adapter: AdapterFactory, options: LocksOptions = {}): Locks {
  if (typeof adapter !== 'function')
    throw invalid('createLocks needs an adapter, such as redis({ url }); a URL or a config goes to openLocks')
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw invalid('options must be an object')
  const { storeTimeoutMs = 5_000, clock = systemClock, store, ...defaults } = options
  if (store !== undefined) checkText('store', store, MAX_LABEL_BYTES)
  const context = new Context(adapter, clock, checkInteger('storeTimeoutMs', storeTimeoutMs), store)
  try {
    return new LocksClient(context, settle('lock', defaults, defaultSettings, context.adapter.capabilities))
  } catch (error) {
    void context.inBackground(context.close())
    throw error
  }
}

class LocksClient implements Locks {
  readonly #context: Context
  readonly #defaults: Settings

  constructor(context: Context, defaults: Settings) {
    this.#context = context
    this.#defaults = defaults
  }

  get capabilities(): Capabilities {
    return this.#context.adapter.capabilities
  }

  lock(name: string, options?: LockOptions): NamedLock {
    checkName(name, this.capabilities)
    return new NamedLock(this.#context, name, settle('lock', options, this.#defaults, this.capabilities))
  }

  async with<T>(name: string, optionsOrFn: AcquireOptions | Body<T>, fn?: Body<T>): Promise<T> {
    return this.lock(name).with(optionsOrFn, fn)
  }

  async once<T>(name: string, options: OnceOptions, fn: Body<T>): Promise<Once<T>> {
    return this.lock(name).once(options, fn)
  }

  async inspect(name: string): Promise<LockState> {
    return this.lock(name).inspect()
  }

  async list({ limit = 1_000 }: { readonly limit?: number } = {}): Promise<readonly LockState[]> {
    return listHeld(this.#context, limit)
  }

  async diagnose(): Promise<readonly Finding[]> {
    return diagnose(this.#context)
  }

  async prune(options: PruneOptions = {}): Promise<number> {
    return prune(this.#context, options)
  }

  async checkSequencer(sequencer: string): Promise<boolean> {
    const { name, fence } = readSequencer(sequencer)
    if (this.capabilities.fencing === 'none') throw unsupported('checkSequencer (fencing is switched off)')
    const state = await this.inspect(name)
    return state.held && state.holder?.fence === fence
  }

  async resume(text: string, options: ResumeOptions = {}): Promise<Lease> {
    return resumeLease(this.#context, this.#defaults, text, options)
  }

  on<K extends LockEventName>(event: K, listener: (payload: LockEvents[K]) => void): () => void {
    return this.#context.events.on(event, listener)
  }

  close(): Promise<void> {
    return this.#context.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
