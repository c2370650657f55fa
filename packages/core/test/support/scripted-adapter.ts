import type { Capabilities } from '../../src/adapter/capabilities.ts'
import type {
  AcquireRequest,
  Adapter,
  AdapterFactory,
  AdapterHost,
  Busy,
  Grant,
  Renewal,
} from '../../src/adapter/spi.ts'
import type { Step } from './steps.ts'

export type Method = 'attempt' | 'wait' | 'withdraw' | 'renew' | 'release' | 'adopt' | 'inspect' | 'close'

interface Held {
  readonly request: AcquireRequest
  readonly fence: bigint
  expiresAt: number
}

export interface ScriptedOptions {
  readonly capabilities?: Partial<Capabilities>
  /** The store's way to wait. Without it core polls. */
  readonly wait?: NonNullable<Adapter['wait']>
  /** Adds to a busy answer. */
  readonly busy?: Partial<Busy>
  /** The ttl of grants, if it differs from the requested one. */
  readonly grantTtlMs?: number
}

const plain: Capabilities = {
  scope: 'process',
  kind: 'lease',
  fencing: 'durable',
  wait: 'poll',
  fairness: 'none',
  handover: true,
  lockDelay: true,
  minHold: true,
  list: false,
  break: false,
  modes: ['exclusive'],
  minTtlMs: 10,
  maxNameBytes: 1024,
}

/** A store in memory whose calls a test can make slow, fail, hang or lose their reply. */
export class ScriptedStore {
  readonly calls: Record<Method, number> = {
    attempt: 0,
    wait: 0,
    withdraw: 0,
    renew: 0,
    release: 0,
    adopt: 0,
    inspect: 0,
    close: 0,
  }
  /** Every request an attempt was made for, in order. */
  readonly attempts: AcquireRequest[] = []
  /** Every batch of renewals, in order. */
  readonly renewals: (readonly Renewal[])[] = []
  /** The `keepMs` of each release, in order. */
  readonly keeps: (number | undefined)[] = []
  /** Methods in the order they were called. */
  readonly log: Method[] = []
  host: AdapterHost | undefined
  readonly #options: ScriptedOptions
  readonly #held = new Map<string, Held>()
  readonly #next = new Map<Method, Step[]>()
  readonly #always = new Map<Method, Step>()
  #fence = 0n

  constructor(options: ScriptedOptions = {}) {
    this.#options = options
  }

  /** Applies `steps` to the next calls of `method`, one after the other. */
  next(method: Method, ...steps: readonly Step[]): void {
    this.#next.set(method, [...(this.#next.get(method) ?? []), ...steps])
  }

  /** Applies `step` to every other call of `method`; without a step, calls are normal again. */
  always(method: Method, step?: Step): void {
    if (step === undefined) this.#always.delete(method)
    else this.#always.set(method, step)
  }

  get totalCalls(): number {
    return Object.values(this.calls).reduce((sum, count) => sum + count, 0)
  }

  /** The attempt that has the name now. */
  holder(name: string): string | undefined {
    return this.#current(name)?.request.attemptId
  }

  expiresAt(name: string): number | undefined {
    return this.#current(name)?.expiresAt
  }

  /** Another client takes the name. */
  seize(name: string, ttlMs = 60_000): void {
    const request: AcquireRequest = {
      name,
      attemptId: `stranger:${name}`,
      owner: 'stranger',
      mode: 'exclusive',
      ttlMs,
      lockDelayMs: 0,
      willWait: false,
      metadata: { host: 'elsewhere', pid: 1 },
    }
    this.#give(request)
  }

  /** The holder loses the name. */
  free(name: string): void {
    this.#held.delete(name)
  }

  readonly factory: AdapterFactory = (host) => {
    this.host = host
    const { wait } = this.#options
    const capabilities = { ...plain, ...this.#options.capabilities }
    const adapter: Adapter = {
      capabilities,
      attempt: (request) => this.#run('attempt', () => this.#attempt(request)),
      withdraw: (request) => this.#run('withdraw', () => void this.#drop(request)),
      renew: (renewals) => {
        this.renewals.push(renewals)
        return this.#run('renew', () => renewals.map((renewal) => this.#renew(renewal)))
      },
      release: (grant, keepMs) => {
        this.keeps.push(keepMs)
        return this.#run('release', () => this.#drop(grant))
      },
      inspect: (name) =>
        this.#run('inspect', () => {
          const held = this.#current(name)
          if (held === undefined) return { name, held: false }
          return { name, held: true, holder: { owner: held.request.owner, fence: held.fence } }
        }),
      close: () => this.#run('close', () => undefined),
    }
    if (wait !== undefined)
      adapter.wait = (request, maxMs, signal) => {
        this.#count('wait')
        return wait(request, maxMs, signal)
      }
    if (capabilities.handover)
      adapter.adopt = (from, request) => this.#run('adopt', () => this.#adopt(from.attemptId, request))
    return adapter
  }

  async #run<T>(method: Method, act: () => T): Promise<T> {
    this.#count(method)
    const step = this.#next.get(method)?.shift() ?? this.#always.get(method)
    return step === undefined ? act() : step(act, this.#clock)
  }

  #count(method: Method): void {
    this.calls[method] += 1
    this.log.push(method)
  }

  get #clock(): AdapterHost['clock'] {
    if (this.host === undefined) throw new Error('no client has been made over this store')
    return this.host.clock
  }

  #current(name: string): Held | undefined {
    const held = this.#held.get(name)
    return held !== undefined && this.#clock.now() < held.expiresAt ? held : undefined
  }

  #give(request: AcquireRequest): Held {
    const held = { request, fence: (this.#fence += 1n), expiresAt: this.#clock.now() + request.ttlMs }
    this.#held.set(request.name, held)
    return held
  }

  #attempt(request: AcquireRequest): Grant | Busy {
    this.attempts.push(request)
    const { name, attemptId } = request
    let held = this.#current(name)
    if (held !== undefined && held.request.attemptId !== attemptId)
      return { busy: true, holder: { owner: held.request.owner, fence: held.fence }, ...this.#options.busy }
    if (held === undefined) held = this.#give(request)
    else held.expiresAt = Math.max(held.expiresAt, this.#clock.now() + request.ttlMs)
    return { name, attemptId, fence: held.fence, ttlMs: this.#options.grantTtlMs ?? request.ttlMs }
  }

  #renew({ grant, ttlMs }: Renewal): 'renewed' | 'lost' {
    const held = this.#current(grant.name)
    if (held?.request.attemptId !== grant.attemptId) return 'lost'
    held.expiresAt = Math.max(held.expiresAt, this.#clock.now() + ttlMs)
    return 'renewed'
  }

  #drop({ name, attemptId }: { readonly name: string; readonly attemptId: string }): 'released' | 'not-held' {
    const held = this.#current(name)
    if (held?.request.attemptId !== attemptId) return 'not-held'
    this.#held.delete(name)
    return 'released'
  }

  #adopt(from: string, request: AcquireRequest): Grant | 'lost' {
    const held = this.#current(request.name)
    const { name, attemptId, ttlMs } = request
    if (held === undefined || ![from, attemptId].includes(held.request.attemptId)) return 'lost'
    this.#held.set(name, { request, fence: held.fence, expiresAt: this.#clock.now() + ttlMs })
    return { name, attemptId, fence: held.fence, ttlMs }
  }
}
