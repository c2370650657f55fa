import type { Capabilities } from '../adapter/capabilities.ts'
import type { AdapterFactory, Finding, Holder, LockState } from '../adapter/spi.ts'
import { systemClock } from '../adapter/time.ts'
import { Acquisition } from '../engine/acquisition.ts'
import { Client } from '../engine/client.ts'
import type { Context } from '../engine/context.ts'
import type { Hold } from '../engine/hold.ts'
import { isRecord } from '../adapter/is-record.ts'
import { breakHold, diagnose, listHeld, prune } from './operators.ts'
import { enclosingHold, runInScope } from '../engine/re-entry.ts'
import { resumeLease } from './resume.ts'
import { boundedCall } from '../engine/deadlines.ts'
import type { Lease, Lock, Locks, Once } from './contract.ts'
import { heldError, isLockError, LockError } from '../adapter/lock-error.ts'
import type { LockEventName, LockEvents } from '../engine/events.ts'
import { LeaseHandle } from './lease.ts'
import { defaultSettings } from '../engine/settings.ts'
import { MAX_LABEL_BYTES } from './options.ts'
import type {
  AcquireOptions,
  LockOptions,
  LocksOptions,
  OnceOptions,
  PruneOptions,
  ResumeOptions,
} from './options.ts'
import type { Settings } from '../engine/settings.ts'
import { readSequencer } from './sequencer.ts'
import { checkInteger, checkKnown, checkName, checkText, settle } from './validate.ts'
import { invalid, unsupported } from '../adapter/lock-error.ts'
import type { Purpose } from './validate.ts'

const clientKeys = ['storeTimeoutMs', 'store', 'clock']

/** Makes a client for the store of an adapter. The options are defaults for all its locks. */
export function createLocks<C extends Capabilities>(
  adapter: AdapterFactory<C>,
  options?: LocksOptions<C>,
): Locks<C>
export function createLocks(adapter: AdapterFactory, options: LocksOptions = {}): Locks {
  if (typeof adapter !== 'function')
    throw invalid('createLocks needs an adapter, such as redis({ url }); a URL or a config goes to openLocks')
  if (!isRecord(options)) throw invalid('options must be an object')
  const { storeTimeoutMs = 5_000, clock = systemClock, store, ...defaults } = options
  if (store !== undefined) checkText('store', store, MAX_LABEL_BYTES)
  const client = new Client(adapter, {
    clock,
    storeTimeoutMs: checkInteger('storeTimeoutMs', storeTimeoutMs),
    store,
  })
  const { context } = client
  try {
    const { capabilities } = context.adapter
    return new LocksClient(client, settle('lock', defaults, defaultSettings, capabilities, clientKeys))
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

  async list(options: { readonly limit?: number } = {}): Promise<readonly LockState[]> {
    checkKnown(options, ['limit'])
    const { limit = 1_000 } = options
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

type Body<T> = (lease: Lease) => T | Promise<T>

class NamedLock implements Lock {
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
      // A hold of this client means that the job has run in this period, or runs now.
      lease = await this.#acquire({ ...settings, reenters: false }, 'throw')
    } catch (error) {
      // Not held by another: the signal was aborted with the time-out of another lock.
      if (!isLockError(error, 'LOCK_TIMEOUT') || error === settings.signal?.reason) throw error
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

  async break(options: { readonly fence?: bigint } = {}): Promise<Holder | null> {
    checkKnown(options, ['fence'])
    const { fence } = options
    if (fence !== undefined && typeof fence !== 'bigint') throw invalid('fence must be a bigint')
    return breakHold(this.#context, () => this.inspect(), fence)
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
    }
    if (held !== undefined && settings.reenters) {
      held.keepFor(settings.minHoldMs)
      return Promise.resolve(LeaseHandle.join(context, held, context.clock.now(), 0))
    }
    // A hold that expired ends here, and its queue may be dropped with it.
    this.#client.queues.existing(this.name)?.hold?.check()
    return new Promise((resolve, reject) => {
      const caller = { leases: LeaseHandle, onBusy, resolve, reject }
      new Acquisition(context, this.#client.queues.of(this.name), settings, caller).start()
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
