import type { Capabilities } from '../adapter/capabilities.ts'
import { Client } from '../engine/client.ts'
import type { Context } from '../engine/context.ts'
import { systemClock } from '../adapter/time.ts'
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

/** A client for one store. A program makes it once and closes it at its end. */
export interface Locks<C extends Capabilities = Capabilities> extends AsyncDisposable {
  /** What the store supports, and its limits. */
  readonly capabilities: C
  /** The lock with that name: cheap to make, holds nothing itself, and may be shared. */
  lock(name: string, options?: LockOptions<C>): Lock<C>
  /** Short for `lock(name).with(…)`. */
  with<T>(name: string, fn: (lease: Lease<C>) => T | Promise<T>): Promise<T>
  with<T>(name: string, options: AcquireOptions<C>, fn: (lease: Lease<C>) => T | Promise<T>): Promise<T>
  /**
   * Runs `fn` at most once per period, however many hosts call it. `fn` runs while holding the lock, which then stays
   * held until `minHoldMs` after the grant. If the lock is held, it returns the holder instead; it waits only if
   * `waitMs` is given. Failures throw, as in `with`.
   */
  once<T>(
    this: C['minHold'] extends false ? never : Locks<C>,
    name: string,
    options: OnceOptions<C>,
    fn: (lease: Lease<C>) => T | Promise<T>,
  ): Promise<Once<T>>
  /** Who holds the lock, since when, and how long remains, according to the store. */
  inspect(name: string): Promise<LockState>
  /** The locks that are held now by any client, at most `limit` of them. Default: 1,000. For operators. */
  list(
    this: C['list'] extends false ? never : Locks<C>,
    options?: { readonly limit?: number },
  ): Promise<readonly LockState[]>
  /** Checks the store and its settings. Each finding says what to do about it. For operators. */
  diagnose(): Promise<readonly Finding[]>
  /**
   * Drops what the store keeps about names that are free and were not granted for `idleMs`. Default: a day. Returns the
   * number of names. If such a name is used again, its fences are still higher than all earlier ones. Clients do this
   * after releases; operators call it when they do not want to wait for that.
   */
  prune(options?: PruneOptions): Promise<number>
  /**
   * Whether the hold that `lease.sequencer` refers to is still the current one at the store. Throws `LOCK_UNSUPPORTED`
   * where `capabilities.fencing` is `none`.
   */
  checkSequencer(sequencer: string): Promise<boolean>
  /** Continues a lease from `lease.serialize()`. Only one caller succeeds; any other gets `LOCK_LOST`. */
  resume(
    this: C['handover'] extends false ? never : Locks<C>,
    text: string,
    options?: ResumeOptions,
  ): Promise<Lease<C>>
  /** Calls `listener` for every event with that name. Returns a function that removes the listener. */
  on<K extends LockEventName>(event: K, listener: (payload: LockEvents[K]) => void): () => void
  /** Ends waits with `LOCK_CLOSED`, releases all holds within a bounded time, and closes the adapter. */
  close(): Promise<void>
}

/** Makes a client for the store of an adapter. The options are defaults for all its locks. */
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
  const client = new Client(adapter, {
    clock,
    storeTimeoutMs: checkInteger('storeTimeoutMs', storeTimeoutMs),
    store,
  })
  const { context } = client
  try {
    return new LocksClient(client, settle('lock', defaults, defaultSettings, context.adapter.capabilities))
  } catch (error) {
    void context.inBackground(client.close())
    throw error
  }
}

class LocksClient implements Locks {
  readonly #client: Client
  readonly #context: Context
  readonly #defaults: Settings

  constructor(client: Client, defaults: Settings) {
    this.#client = client
    this.#context = client.context
    this.#defaults = defaults
  }

  get capabilities(): Capabilities {
    return this.#context.adapter.capabilities
  }

  lock(name: string, options?: LockOptions): NamedLock {
    checkName(name, this.capabilities)
    return new NamedLock(this.#client, name, settle('lock', options, this.#defaults, this.capabilities))
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
    return resumeLease(this.#client, this.#defaults, text, options)
  }

  on<K extends LockEventName>(event: K, listener: (payload: LockEvents[K]) => void): () => void {
    return this.#context.events.on(event, listener)
  }

  close(): Promise<void> {
    return this.#client.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }
}
