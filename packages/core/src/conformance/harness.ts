import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Capabilities } from '../adapter/capabilities.ts'
import { loadAdapter } from '../config/open.ts'
import type { UncheckedConfig } from '../config/types.ts'
import type { LockErrorCode } from '../api/errors.ts'
import { createLocks } from '../api/locks.ts'
import type { Locks } from '../api/contract.ts'
import type { LocksOptions } from '../api/options.ts'
import type { AdapterFactory } from '../adapter/spi.ts'
import { borrowChild } from './child-pool.ts'
import type { Child } from './child-process.ts'
import { lockError } from './lock-error.ts'
import { startFaultProxy } from './fault-proxy.ts'
import type { FaultProxy } from './fault-proxy.ts'
import { faulty } from './faulty-adapter.ts'
import type { Faults } from './faulty-adapter.ts'
import type { HistoryEvent } from './history.ts'
import { lastingConfig } from './subject.ts'
import type { Subject } from './subject.ts'
import { openTestAdapter } from './test-adapter.ts'
import type { TestAdapter } from './test-adapter.ts'
import { eventually, inTime, isVoidRun, judgeFailure } from './time/bounds.ts'
import type { Bound, VoidRunError } from './time/bounds.ts'
import { stallMeter } from './time/stall-meter.ts'
import { meant } from './time/intended.ts'
import { watchRejections } from './unhandled-rejections.ts'

/** Every time in the suite is multiplied by this, for slow or busy machines. */
export function slowFactor(): number {
  const factor = Number(process.env['LOCKS_TEST_SLOW'] ?? 1)
  return Number.isFinite(factor) && factor >= 1 ? factor : 1
}

/** The hooks of a test runner into a case. The test contexts of vitest and node:test fit. */
export interface CaseHost {
  /** Ends the case early: it then rejects with the signal's reason, after everything it made is closed. */
  readonly signal?: AbortSignal
  /** Gets what the processes of a contended case recorded, before it is judged. */
  readonly onHistory?: (events: readonly HistoryEvent[]) => void
  /** Gets the name of each lock before the case uses it. A host that shares the store can clean up after the case. */
  readonly onName?: (name: string) => void
  /** Called when a run of the case is void, with what was paused. A case runs up to three times. */
  readonly onVoid?: (why: VoidRunError) => void
}

/** A separate client, like that of an independent program, with faults for its adapter. */
export interface TestClient {
  readonly locks: Locks
  readonly faults: Faults
}

/** What a rule works with. Everything it makes is closed or killed when the rule ends. */
export class Harness {
  readonly subject: Subject
  readonly capabilities: Capabilities
  readonly #factory: AdapterFactory
  readonly #lastingFactory: AdapterFactory
  readonly #cleanups: (() => Promise<unknown>)[] = []
  readonly #names = new Set<string>()
  #host: CaseHost = {}
  #over = false

  constructor(
    subject: Subject,
    factory: AdapterFactory,
    capabilities: Capabilities,
    lastingFactory: AdapterFactory = factory,
  ) {
    this.subject = meant(subject)
    this.capabilities = capabilities
    this.#factory = factory
    this.#lastingFactory = lastingFactory
  }

  /** A lease length short enough to wait for its end, already scaled. Only for rules about that end. */
  get ttlMs(): number {
    return this.ms(Math.max(this.subject.ttlMs ?? 1_000, this.capabilities.minTtlMs))
  }

  /** The default lease length of rules: too long to end during a rule, even on a slow machine. */
  get lastingMs(): number {
    return this.ttlMs * 60
  }

  /** A duration, scaled for slow machines. */
  ms(duration: number): number {
    return Math.ceil(duration * slowFactor())
  }

  /** A lock name that no other case uses. */
  name(hint = 'lock'): string {
    return this.named(`conformance:${hint}:${randomUUID()}`)
  }

  /** A lock name that the rule makes up itself. */
  named(name: string): string {
    this.#names.add(name)
    this.#host.onName?.(name)
    return name
  }

  /** A client whose leases and sessions do not end, unless `ttlMs` is given: rules about the end of a hold give it. */
  async client(options: LocksOptions = {}): Promise<TestClient> {
    return this.#open(this.#factoryFor(options), options)
  }

  /** The same, with connections through a proxy. Only for rules that need `wire`. */
  async wireClient(options: LocksOptions = {}): Promise<TestClient & { readonly proxy: FaultProxy }> {
    const { wire } = this.subject
    assert.ok(wire, 'this rule needs wire')
    const { frames } = wire
    const proxy = await startFaultProxy(wire.target, frames && { frames })
    this.onEnd(() => proxy.close())
    const factory = await loadAdapter(this.#configFor(options, wire.via(proxy)))
    return { ...this.#open(factory, options), proxy }
  }

  /** The adapter of another client, without core. For `ttlMs` see `client`. */
  adapter(options: { readonly ttlMs?: number } = {}): TestAdapter {
    const opened = openTestAdapter(this.#factoryFor(options))
    this.onEnd(() => opened.adapter.close())
    const { ttlMs = this.lastingMs } = options
    return { ...opened, request: (lock, given) => opened.request(lock, { ttlMs, ...given }) }
  }

  /** A separate process with its own client. Only for rules that need `processes`, or with a config given here. */
  async child(
    options: LocksOptions = {},
    config: UncheckedConfig = this.#configFor(options, this.subject.config),
  ): Promise<Child> {
    const { child, giveBack } = await borrowChild()
    this.onEnd(giveBack)
    await child.call('open', { config, options: { ttlMs: this.lastingMs, ...options } })
    return child
  }

  /** A new directory for this rule. */
  async directory(): Promise<string> {
    const path = await mkdtemp(join(tmpdir(), 'locks-conformance-'))
    this.onEnd(() => rm(path, { recursive: true, force: true }))
    return path
  }

  /** Calls `probe` until it returns something other than undefined or false. Fails the rule if that is not in time. */
  eventually<T>(
    what: string,
    within: number | Bound,
    probe: () => Promise<T | undefined | null | false> | T | undefined | null | false,
  ): Promise<T> {
    return eventually(what, within, probe)
  }

  /** Fails the rule unless `outcome` rejects with a `LockError` with that code. */
  async rejects(outcome: Promise<unknown>, code: LockErrorCode): Promise<void> {
    await lockError(outcome, code)
  }

  /** Fails the rule unless `lock` can be acquired at once and leaves nothing behind in the store. */
  async free(lock: string): Promise<void> {
    const { locks } = await this.client()
    const lease = await locks.lock(lock).tryAcquire({ ttlMs: this.ttlMs })
    assert.ok(lease, `${lock} should be free, but it is held`)
    await lease.release()
    const left = (await this.subject.leftovers?.(lock)) ?? []
    assert.deepEqual(left, [], `left in the store for ${lock}`)
  }

  onEnd(cleanup: () => Promise<unknown>): void {
    // A rule that was ended early may still be running.
    if (this.#over) void cleanup().catch(() => undefined)
    else this.#cleanups.push(cleanup)
  }

  /** For the test runner; see `CaseHost`. */
  recorded(events: readonly HistoryEvent[]): void {
    this.#host.onHistory?.(events)
  }

  /** Runs `body`, then ends everything it made. An unhandled rejection meanwhile fails the rule. */
  async run(
    body: (harness: Harness) => Promise<void>,
    host: CaseHost = {},
    limit: number | Bound = 600_000,
  ): Promise<void> {
    this.#host = host
    this.#measure()
    const startedAt = performance.now()
    const rejections = watchRejections(this.#names)
    const failures: unknown[] = []
    const go = async (work: () => Promise<unknown>): Promise<void> => {
      try {
        await work()
      } catch (error) {
        failures.push(error)
      }
    }
    const ended = async (): Promise<void> => {
      try {
        await inTime('the end of the rule', limit, body(this))
      } catch (error) {
        throw await judgeFailure(error, startedAt, this.ttlMs)
      }
    }
    await go(() => unlessAborted(ended(), host.signal))
    this.#over = true
    for (const cleanup of this.#cleanups.reverse()) await go(cleanup)
    // Node reports a rejection as unhandled one iteration of the event loop later.
    await new Promise((resolve) => setImmediate(resolve))
    const unhandled = rejections.end({ failed: failures.length > 0 })
    // A failure that is not about time counts, even during a stall.
    const failed = failures.findIndex((error) => !isVoidRun(error))
    if (failed >= 0) throw failures[failed]
    assert.deepEqual(unhandled, [], 'unhandled rejections')
    if (failures.length > 0) throw failures[0]
  }

  /** Measures how long this process, its children and the server are paused, until the rule ends. */
  #measure(): void {
    const stop = stallMeter.start()
    this.onEnd(async () => stop())
    if (this.subject.processes !== undefined) {
      const unwatch = stallMeter.watch(() => this.subject.processes?.() ?? [])
      this.onEnd(async () => unwatch())
    } else if (!stallMeter.watchesServers && this.capabilities.scope !== 'process') {
      const { adapter } = this.adapter()
      const probed = this.name('probe')
      this.onEnd(stallMeter.probe(() => adapter.inspect(probed)))
    }
  }

  #factoryFor({ ttlMs }: Pick<LocksOptions, 'ttlMs'>): AdapterFactory {
    return ttlMs === undefined ? this.#lastingFactory : this.#factory
  }

  #configFor({ ttlMs }: Pick<LocksOptions, 'ttlMs'>, config: UncheckedConfig): UncheckedConfig {
    return ttlMs === undefined ? lastingConfig(this.subject, config) : config
  }

  #open(inner: AdapterFactory, options: LocksOptions): TestClient {
    const { factory, faults } = faulty(inner)
    const locks = createLocks(factory, { ttlMs: this.lastingMs, ...options })
    this.onEnd(async () => {
      faults.heal()
      await locks.close()
    })
    return { locks, faults }
  }
}

async function unlessAborted(work: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return work
  let stop = (): void => undefined
  const aborted = new Promise<void>((resolve) => {
    stop = resolve
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) stop()
  })
  try {
    await Promise.race([work, aborted.then(() => signal.throwIfAborted())])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
