import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { Capabilities } from '../adapter/capabilities.ts'
import { loadAdapter } from '../config/open.ts'
import type { UncheckedConfig } from '../config/types.ts'
import type { LockErrorCode } from '../adapter/lock-error.ts'
import { createLocks } from '../api/locks.ts'
import type { Locks } from '../api/contract.ts'
import type { LocksOptions } from '../api/options.ts'
import type { AdapterFactory } from '../adapter/spi.ts'
import { CaseRun } from './case-run.ts'
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
import { stallMeter } from './time/stall-meter.ts'
import { withIntendedPauses } from './time/intended.ts'

/** A separate client, like that of an independent program, with faults for its adapter. */
export interface TestClient {
  readonly locks: Locks
  readonly faults: Faults
}

/** What a rule works with. */
export class Harness extends CaseRun {
  readonly subject: Subject
  readonly capabilities: Capabilities
  readonly #factory: AdapterFactory
  readonly #lastingFactory: AdapterFactory

  constructor(
    subject: Subject,
    factory: AdapterFactory,
    capabilities: Capabilities,
    lastingFactory: AdapterFactory = factory,
  ) {
    super()
    this.subject = withIntendedPauses(subject)
    this.capabilities = capabilities
    this.#factory = factory
    this.#lastingFactory = lastingFactory
  }

  override get ttlMs(): number {
    return this.ms(Math.max(this.subject.ttlMs ?? 1_000, this.capabilities.minTtlMs))
  }

  /** The default lease length of rules: too long to end during a rule, even on a slow machine. */
  get lastingMs(): number {
    return this.ttlMs * 60
  }

  /** A lock name that no other case uses. */
  name(hint = 'lock'): string {
    return this.named(`conformance:${hint}:${randomUUID()}`)
  }

  /** A lock name that the rule makes up itself. */
  named(name: string): string {
    this.names.add(name)
    this.host.onName?.(name)
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

  /** Fails the rule unless `outcome` rejects with a `LockError` with that code. */
  async rejects(outcome: Promise<unknown>, code: LockErrorCode): Promise<void> {
    await lockError(outcome, code)
  }

  /** Fails the rule unless `lock` can be acquired at once and leaves nothing behind in the store. */
  async free(lock: string): Promise<void> {
    assert.ok(await this.isFree(await this.client(), lock), `${lock} should be free, but it is held`)
    assert.deepEqual(await this.leftovers(lock), [], `left in the store for ${lock}`)
  }

  /** Whether the client can acquire `lock` now. Releases it at once. */
  async isFree({ locks }: TestClient, lock: string): Promise<boolean> {
    const lease = await locks.lock(lock).tryAcquire({ ttlMs: this.ttlMs })
    await lease?.release()
    return lease !== null
  }

  /** What is left in the store for `lock`, as far as the subject can see. */
  async leftovers(lock: string): Promise<readonly string[]> {
    return (await this.subject.leftovers?.(lock)) ?? []
  }

  /** For the test runner; see `CaseHost`. */
  recorded(events: readonly HistoryEvent[]): void {
    this.host.onHistory?.(events)
  }

  /** Measures the server too: from outside if its processes are known, else by how long it takes to answer. */
  protected override measure(): void {
    super.measure()
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
